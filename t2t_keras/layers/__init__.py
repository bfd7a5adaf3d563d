"""Station 3: batches in, hidden states out. The paper's layers, in Keras alone."""
