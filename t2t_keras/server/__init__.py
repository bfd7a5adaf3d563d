"""Servers for development and for one machine: TensorFlow Serving, LibreTranslate."""
