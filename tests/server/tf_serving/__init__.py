"""Tests of the embedded server and of its conformance with TensorFlow Serving."""
