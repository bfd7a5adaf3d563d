"""Ablation: variations of one run, each trained from several seeds."""
