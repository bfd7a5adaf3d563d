"""Models of Marian: import and export."""
