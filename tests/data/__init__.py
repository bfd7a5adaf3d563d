"""Tests of data/: the bundled corpora and their programs."""
