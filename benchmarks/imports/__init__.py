"""Imported models against the programs that they come from."""
