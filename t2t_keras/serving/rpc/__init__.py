"""What a client needs of gRPC: calls, retries, tensors; nothing of TensorFlow runs."""
