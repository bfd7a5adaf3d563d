"""Serving: the exported SavedModel, a gRPC client, and a server for development."""
