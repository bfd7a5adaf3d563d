"""gRPC client of TensorFlow Serving that does not start TensorFlow."""
