"""A synchronous grammar of English and German: one derivation, two sentences.

Road: `lexicon` (words as tables) → `derivation` (what a sentence says, in no
language) → `sample_*` and `admission` (draw derivations, keep what can be said) →
`english_*` (constituency trees) and `german_*` (words in order) → `corpus` (distinct
pairs, splits) → the dataset builder.
"""
