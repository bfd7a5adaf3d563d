"""Beam search over any step function, and over the Transformer (section 6.1)."""
