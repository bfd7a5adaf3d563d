"""Reader and writer of CTranslate2's models."""
