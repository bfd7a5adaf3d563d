"""Batches: length buckets, packing, mixtures, and the order of an epoch."""
