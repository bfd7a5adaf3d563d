"""Station 1½: constituency trees, as text that a translator can learn."""
