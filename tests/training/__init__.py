"""Tests of training: against NumPy, on one and two devices, with and without XLA."""
