"""Memory of the loss over a large vocabulary, alone and in a whole training step."""
