"""Constituency parsing as translation (section 6.3): trees, repair, EVALB scores."""
