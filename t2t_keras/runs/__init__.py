"""Runs: a model directory and every operation on it."""
