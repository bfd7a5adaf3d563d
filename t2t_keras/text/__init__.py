"""Text: normalization, subwords, vocabulary and the tokenizer in the graph."""
