"""Station 2: corpora come in, bucketed, padded, shifted, weighted batches go out."""
