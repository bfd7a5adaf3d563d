"""Exported SavedModels: signatures, checks, warm-up, files for the server."""
