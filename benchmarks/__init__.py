"""Benchmarks: one command each, figures in the README."""
