"""Tests of the translation API."""
