"""Tests of model directories and what is done to them."""
