"""Tests of data: the bundled corpora and the programs beside them."""
