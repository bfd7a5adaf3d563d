"""Tests of station 3: layers against the paper in NumPy, and against one list."""
