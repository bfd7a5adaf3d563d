"""Tests of settings, flags and flagfiles."""
