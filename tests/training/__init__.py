"""Training compared with NumPy, and against itself on two devices and under XLA."""
