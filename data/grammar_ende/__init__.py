"""A synchronous grammar of English and German: one derivation, two sentences.

Road: `lexicon` (words as tables) → `derivation` (what a sentence says, in no
language) → `sample_*` (draws derivations) → `english_*` (constituency trees) and
`german_*` (word sequences) → `corpus` (distinct pairs, splits) → the dataset
builder.
"""
