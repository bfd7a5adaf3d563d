"""Data of a run: its corpora, vocabulary and batches, built from settings."""
