"""Which requests a server replays before it takes any: the first would wait longest.

A graph of TensorFlow is optimised when a signature is first called, and what XLA
compiles is compiled for each shape when that is first seen. A server does both while
it loads a version, if the version brings requests along.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from t2t_keras.serving import signature
from t2t_keras.serving.export.requests import Request, example_request, text_of
from t2t_keras.text.vocabulary import SubwordVocabulary

# Tokens of a warm-up's sentences where lengths do not matter.
SHORT = 8


def warm_up_requests(
    signatures: Mapping[str, Any],
    vocabulary: SubwordVocabulary,
    batch_sizes: Sequence[int],
    buckets: Sequence[int] = (),
) -> list[Request]:
    """Returns the requests to replay, those of the default signature first.

    Each signature is called once. The default one is called with the largest batch,
    too, or, where XLA compiles, with every size of batch in every bucket. What else
    XLA compiles it compiles when somebody asks.

    Args:
        signatures: SignatureDef of each signature, by name.
        vocabulary: Of the export.
        batch_sizes: That a server joins requests to, ascending.
        buckets: Lengths of the sources that XLA compiles for, ascending.
    """
    short = text_of(vocabulary, min([SHORT, *buckets]))

    def request(name: str, text: str, rows: int) -> Request:
        definition = signatures[name]
        # One for each row: a server that joins requests takes no scalars, not even
        # defaults, and a warm-up that fails fails the load.
        options = {
            option: tf.make_ndarray(default)
            for option, default in definition.defaults.items()
        }
        names = definition.inputs.keys()
        return example_request(name, names, [text] * rows, vocabulary, options)

    # As short as a bucket's sources can be: what is searched takes as long as they are,
    # what is compiled is for the whole bucket.
    lengths = [
        min(bucket, shorter + SHORT)
        for shorter, bucket in zip((0, *buckets), buckets, strict=False)
    ]
    default = [
        request(signature.TRANSLATE, text_of(vocabulary, length), rows)
        for length in lengths or (SHORT,)
        for rows in (batch_sizes if buckets else batch_sizes[-1:])
    ]
    return [*default, *(request(name, short, 1) for name in signatures)]
