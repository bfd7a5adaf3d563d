"""Station 9: weights and vocabulary in, a SavedModel for a server out."""
