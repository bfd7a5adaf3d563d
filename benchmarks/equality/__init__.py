"""Comparison of two commits: whether their programs compute the same, and how fast."""
