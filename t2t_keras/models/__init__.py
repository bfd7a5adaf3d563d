"""Station 4: hidden states in, logits out. The layers joined to the Transformer."""
