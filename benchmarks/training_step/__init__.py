"""Speed of the training step, compared with other libraries."""
