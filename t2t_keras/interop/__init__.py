"""Models of other toolkits: import into model directories, and export."""
