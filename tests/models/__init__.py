"""Tests of station 4: the model against the paper in NumPy, and its invariants."""
