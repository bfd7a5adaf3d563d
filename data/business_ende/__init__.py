"""Formal business letters in English and German, with the grammar of grammar_ende.

Pipeline: `lexicon` (words and fixed phrases) → `sample_phrases` and
`sample_sentences` (draw derivations) → grammar_ende's `english_*` and `german_*` →
`corpus` (distinct pairs, splits) → the dataset builder.
"""
