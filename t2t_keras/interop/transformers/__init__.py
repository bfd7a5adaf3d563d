"""MarianMT models of Hugging Face transformers: import and export."""
