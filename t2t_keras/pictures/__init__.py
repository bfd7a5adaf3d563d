"""Attention maps and statistics of heads, as figures, tables and a page."""
