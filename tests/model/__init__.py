"""Tests of the layers and the Transformer against the paper in NumPy."""
