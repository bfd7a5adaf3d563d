"""Tests of station 4: the whole model against the paper in NumPy, and its invariants."""
