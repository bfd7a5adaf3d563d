"""The house rules, held by tests: what may import what, and habits of style."""
