"""Tests of the benchmarks, on very small models and data."""
