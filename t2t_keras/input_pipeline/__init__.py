"""Input pipeline: corpora, token ids on disk, and batches."""
