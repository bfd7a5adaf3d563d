"""Other toolkits at the work of the programs, on the same GPU."""
