"""Settings: dataclasses that are also flags and flagfiles."""
