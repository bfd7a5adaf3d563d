"""A synchronous grammar of English and German: one derivation, two sentences.

Pipeline: `lexicon` (words as tables) → `derivation` (the meaning of a sentence, in
no language) → `sample_*` and `admission` (draw derivations, keep those that both
languages can express) → `english_*` (constituency trees) and `german_*` (words in
order) → `corpus` (distinct pairs, splits) → the dataset builder.
"""
