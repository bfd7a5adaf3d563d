"""Import of other toolkits' models into model directories."""
