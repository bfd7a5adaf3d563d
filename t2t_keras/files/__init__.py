"""Files and signals: text lines, atomic writes, locks, digests, signal handling."""
