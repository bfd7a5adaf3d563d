"""Models of Hugging Face transformers: import of three kinds, export of MarianMT."""
