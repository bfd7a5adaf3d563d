"""Pictures of attention: figures, a page for a browser, and what each head does."""
