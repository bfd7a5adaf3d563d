"""Station 5 held against NumPy, and against itself on two devices and under XLA."""
