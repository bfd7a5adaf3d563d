"""Settings as dataclasses, flags and flagfiles; what all programs share."""
