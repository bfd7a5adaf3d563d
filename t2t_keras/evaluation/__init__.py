"""Evaluation: BLEU, chrF, and translation of many lines."""
