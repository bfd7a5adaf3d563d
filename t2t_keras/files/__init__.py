"""Files and signals: text lines, atomic writes, locks, clean stops, quiet start-up."""
