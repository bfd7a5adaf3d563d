"""Training step as a program for any XLA device, timed without TensorFlow."""
