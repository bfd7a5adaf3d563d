"""The training step, beside those of other libraries."""
