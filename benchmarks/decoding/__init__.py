"""Beam search of the exported model, beside that of other libraries."""
