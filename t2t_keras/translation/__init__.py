"""Translation of many lines: batches, paragraphs, reranking, lexicons of shortlists."""
