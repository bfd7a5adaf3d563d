"""The memory of the loss over a large vocabulary, alone and in a whole step."""
