"""Tests of station 3: each layer against the paper in NumPy, and all against one list."""
