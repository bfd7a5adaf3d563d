"""The embedded server, and whether it is what it stands in for."""
