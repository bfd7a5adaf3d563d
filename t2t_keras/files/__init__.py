"""Files and signals: text lines, atomic writes, locks, digests, clean stops."""
