"""Parallel text in shards of TSV, prepared by Apache Beam."""
