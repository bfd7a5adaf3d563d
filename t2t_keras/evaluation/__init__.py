"""Evaluation: BLEU, chrF, TER, alignment error rate, and comparison of systems."""
