"""Variations of one run, each trained from several seeds, in one folder."""
