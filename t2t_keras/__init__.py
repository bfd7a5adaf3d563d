"""The Transformer of "Attention Is All You Need" on TensorFlow and Keras 3."""

import os

__version__ = "0.2.0"

# Before TensorFlow is first imported: its start-up lines would bury ours.
# A user who wants them sets the variable himself.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
