"""The ops that exports use, each of which TensorFlow Serving 2.20 knows.

Every name was looked up in the op registry of TensorFlow 2.20.0, and the two of the
tokenizer in that of TensorFlow Text 2.20.1, on 2026-11-22; so were the attributes of
every node. To add one, look it up there first: a server refuses a version whose graph
has an op that it does not know.
"""

TOKENIZER_OPS = frozenset({"SentencepieceOp", "SentencepieceTokenizeOp"})
