"""Attention maps of a sentence, as figures and as a page for a browser."""
