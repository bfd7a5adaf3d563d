"""What the layer types of the paper's Table 1 cost, measured."""
