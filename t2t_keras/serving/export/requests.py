"""Warm-up requests of an export, and example requests for validation.

TensorFlow optimizes a graph when a signature is first called, and XLA compiles a shape
when it first occurs. A server does both while it loads a version, for signatures that
have warm-up requests; for others the first client waits for it.

Shapes: B batch, S source length.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from t2t_keras.serving import signature
from t2t_keras.text.padding import pad_sentences
from t2t_keras.text.vocabulary import Vocabulary

# Path of the requests below a version's directory; servers expect this name.
WARM_UP_FILE = Path("assets.extra", "tf_serving_warmup_requests")
# Maximum number of warm-up requests that a server accepts.
MAX_WARM_UPS = 1000


# Tokens of a warm-up sentence whose length does not matter.
SHORT = 8


class Request(NamedTuple):
    """Request to one signature.

    Attributes:
        signature_name: Name of the signature.
        inputs: Arrays by name; an input that has a default may be missing.
    """

    signature_name: str
    inputs: Mapping[str, np.ndarray]


def make_text(vocabulary: Vocabulary, tokens: int) -> str:
    """Returns a text of at most `tokens` tokens, EOS included, else the shortest text.

    `tokens` is at least 1.
    """
    encode = vocabulary.source.encode
    once, twice = (len(encode("a" + " a" * more)) for more in (0, 1))
    return "a" + " a" * max((tokens - once) // max(1, twice - once), 0)


def example_request(
    name: str,
    input_names: Collection[str],
    texts: Sequence[str],
    vocabulary: Vocabulary,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Request:
    """Returns a request of B sentences.

    Args:
        name: Name of the signature.
        input_names: Names of its inputs.
        texts: B sentences, both sources and targets.
        vocabulary: Vocabulary of the export.
        options: Values for every row, by name. Default: those of the signature.
    """
    strings = np.array([text.encode() for text in texts], dtype=object)
    source_ids, target_ids = (
        pad_sentences([side.encode(text) for text in texts]).numpy()
        for side in (vocabulary.source, vocabulary)
    )
    values = {
        signature.TEXT: strings,
        signature.SOURCE: strings,
        signature.TARGET: strings,
        signature.PREFIX: strings,
        signature.TERMS: strings,
        signature.SEED: np.arange(len(texts), dtype=np.int64),
        signature.INPUT_IDS: source_ids,
        signature.OUTPUT_IDS: target_ids,
    }
    inputs = {alias: values[alias] for alias in values.keys() & input_names}
    each = {alias: np.full(len(texts), value) for alias, value in options.items()}
    return Request(name, {**inputs, **each})


def row_options(definition: Any) -> dict[str, Any]:
    """Returns the options of a SignatureDef that have defaults, with those values.

    A server that joins requests into batches accepts neither scalars nor missing
    options, so a request that works in every server has a value for each row.
    """
    return {
        option: tf.make_ndarray(default)
        for option, default in definition.defaults.items()
    }


def write_warm_up(directory: Path, requests: Sequence[Request]) -> None:
    """Writes the requests that a server replays before it serves a version.

    Args:
        directory: Directory of the version.
        requests: At most `MAX_WARM_UPS`. If there are none, no file is written, which
            servers accept.

    Raises:
        ValueError: If there are more.
    """
    if len(requests) > MAX_WARM_UPS:
        raise ValueError(
            f"A server replays at most {MAX_WARM_UPS} requests. "
            f"Received: {len(requests)}"
        )
    path = directory / WARM_UP_FILE
    path.parent.mkdir(exist_ok=True)
    if not requests:
        return
    with tf.io.TFRecordWriter(str(path)) as writer:
        for request in requests:
            message = predict_pb2.PredictRequest()
            message.model_spec.signature_name = request.signature_name
            for name, value in request.inputs.items():
                message.inputs[name].CopyFrom(tf.make_tensor_proto(value))
            log = prediction_log_pb2.PredictionLog(
                predict_log=prediction_log_pb2.PredictLog(request=message)
            )
            writer.write(log.SerializeToString())


def read_warm_up(directory: Path) -> Iterator[Request]:
    """Yields the requests that `write_warm_up` wrote."""
    path = directory / WARM_UP_FILE
    for record in tf.data.TFRecordDataset(str(path)) if path.exists() else ():
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        message = log.predict_log.request
        inputs = {
            name: tf.make_ndarray(value) for name, value in message.inputs.items()
        }
        yield Request(message.model_spec.signature_name, inputs)


def warm_up_requests(
    signatures: Mapping[str, Any],
    vocabulary: Vocabulary,
    batch_sizes: Sequence[int],
    buckets: Sequence[int] = (),
) -> list[Request]:
    """Returns the warm-up requests, those of the default signature first.

    Each signature is called once. The default one is also called with the largest
    batch or, with XLA, with every batch size in every bucket. XLA compiles other shapes
    at the first request.

    Args:
        signatures: SignatureDef of each signature to warm up, by name.
        vocabulary: Vocabulary of the export.
        batch_sizes: Batch sizes that a server pads to, ascending.
        buckets: Source lengths that XLA compiles for, ascending.
    """
    short = make_text(vocabulary, min([SHORT, *buckets]))

    def request(name: str, text: str, rows: int) -> Request:
        definition = signatures[name]
        options = row_options(definition)
        names = definition.inputs.keys()
        return example_request(name, names, [text] * rows, vocabulary, options)

    # Sources about as short as possible for their bucket: compilation covers the whole
    # bucket, while the time of the search grows with the source.
    lengths = [
        min(bucket, shorter + SHORT)
        for shorter, bucket in zip((0, *buckets), buckets, strict=False)
    ]
    default = [
        request(signature.TRANSLATE, make_text(vocabulary, length), rows)
        for length in lengths or (SHORT,)
        for rows in (batch_sizes if buckets else batch_sizes[-1:])
        if signature.TRANSLATE in signatures
    ]
    return [*default, *(request(name, short, 1) for name in signatures)]
