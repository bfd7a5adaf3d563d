"""Tests of files, locks, signals and quiet start-up."""
