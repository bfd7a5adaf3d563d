"""Station 8: translations and their references come in, scores go out."""
