"""Speed of the exported model's beam search, compared with other libraries."""
