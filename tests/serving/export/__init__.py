"""Tests of the exported SavedModel."""
