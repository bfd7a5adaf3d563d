"""Exports of a run's model, one module for each kind of format."""
