"""Tests of the model: layers and Transformer against the paper in NumPy."""
