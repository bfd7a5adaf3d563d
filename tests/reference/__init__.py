"""Slow, plain float64 NumPy written from the paper: what the package is held against.

Nothing here imports the package, and no line is shared with it.
"""
