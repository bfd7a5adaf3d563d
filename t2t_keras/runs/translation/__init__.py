"""Translations, alignments and scores by the models of a run."""
