"""Training to the end by the program of our step, on a machine without TensorFlow."""
