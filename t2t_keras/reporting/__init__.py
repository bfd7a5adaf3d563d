"""What runs have shown, beside what the paper says: figures, tables, pages."""
