"""TensorFlow Serving's gRPC services in Python, for development and tests."""
