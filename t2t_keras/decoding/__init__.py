"""Station 7. A step function and length limits in; token ids and scores out."""
