"""Serving: the exported SavedModel and its signature, and a gRPC client."""
