"""Outputs of all signatures of an export, called as an application calls them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def call_signatures(
    directory: Path, sources: Sequence[str], targets: Sequence[str]
) -> Mapping[str, np.ndarray]:
    """Returns each output of each signature, by "signature output".

    Args:
        directory: Version directory of an export.
        sources: Lines to translate, or the sources of pairs.
        targets: Targets of pairs, for signatures that take pairs.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers the tokenizer's operations)

    loaded: Any = tf.saved_model.load(str(directory))
    arrays: dict[str, np.ndarray] = {}
    for name in sorted(loaded.signatures):
        function = loaded.signatures[name]
        specs = function.structured_input_signature[1]
        inputs: dict[str, Any] = {
            "text": tf.constant(sources),
            "source": tf.constant(sources),
            "target": tf.constant(targets),
            "input_ids": _ids(directory, sources),
            "output_ids": _ids(directory, targets),
            "beam_size": tf.range(len(sources)) % 3 + 1,
            "alpha": tf.cast(tf.range(len(sources)), tf.float32) / len(sources),
            "max_length": tf.range(len(sources)) + 1,
        }
        outputs = function(**{key: inputs[key] for key in specs})
        for key, value in outputs.items():
            array = value.numpy()
            if array.dtype == object:
                array = array.astype("S")
            arrays[f"{name} {key}"] = array
    return arrays


def _ids(directory: Path, lines: Sequence[str]) -> Any:
    """Returns the lines as ids [B, S] int32, each ended by EOS (1), padded with 0."""
    import sentencepiece
    import tensorflow as tf

    processor = sentencepiece.SentencePieceProcessor()
    processor.load(str(directory / "assets.extra" / "vocabulary.model"))
    rows = [[*processor.encode(line), 1] for line in lines]
    return tf.ragged.constant(rows, tf.int32).to_tensor()
