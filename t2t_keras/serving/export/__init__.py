"""The exported SavedModel: signatures, checks, warm-up, files for the server."""
