"""The Transformer (section 3): layers, model, and scores of a target."""
