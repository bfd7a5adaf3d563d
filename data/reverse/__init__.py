"""A generated task: repeat the words of a sentence in the opposite order."""
