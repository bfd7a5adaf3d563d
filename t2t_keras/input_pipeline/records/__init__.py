"""Records: a corpus as token ids, in memory and on disk."""
