"""The contract with a server: names of an export's signatures and tensors.

Standard library only, so that a client need import nothing else.
"""

# Text in, text out. What TensorFlow Serving calls if no signature is named.
TRANSLATE = "serving_default"
# Ids in, ids out, for those who tokenize themselves.
TRANSLATE_IDS = "translate_ids"

# [B] string, UTF-8, one sentence each.
TEXT = "text"
# [B] string, the best translation of each.
TRANSLATION = "translation"
# [B] float32, its log probability over its length penalty; 0 for an empty text.
SCORE = "score"

# [B, S] int32, each row ended by EOS (1) and padded with 0.
INPUT_IDS = "input_ids"
# [B, L] int32, each row ended by EOS (1) and padded with 0.
OUTPUT_IDS = "output_ids"
# [B] int32, tokens of each output, EOS counted.
OUTPUT_LENGTH = "output_length"
