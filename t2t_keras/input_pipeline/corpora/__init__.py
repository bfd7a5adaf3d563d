"""Corpora: sentence pairs from text files and TensorFlow Datasets."""
