"""The training step as a program for any XLA device, to be timed without TensorFlow."""
