"""Tests of the code rules: allowed imports, dependencies, and habits of style."""
