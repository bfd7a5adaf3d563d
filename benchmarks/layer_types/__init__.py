"""Measured cost of the layer types of the paper's Table 1."""
