"""Imports of Tensor2Tensor's models against NumPy: logits of random pairs."""

import json
import random
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.imports.routes import (
    convert,
    count_equal,
    translate_by_all_routes,
)
from benchmarks.imports.t2t_reference import Reference
from t2t_keras import Run
from t2t_keras.text.padding import pad_sentences, shift_right
from t2t_keras.text.vocabulary import UNK_ID

_LONGEST = 30
_LINES = 20


def check(folder: Path, count: int, work: Path) -> dict[str, str]:
    """Returns the figures of an import.

    Args:
        folder: Checkpoint of a pre-norm model, with hparams.json and vocabulary.
        count: Number of random pairs.
        work: Empty folder for what this writes.
    """
    convert("tensor2tensor", folder, work / "t2t")
    run = Run(work / "t2t")
    model = run.trained("latest").model
    originals = run.model_dir.run_card()["import"]["original_ids"]
    ours = {original: i for i, original in enumerate(originals)}
    hparams = json.loads((folder / "hparams.json").read_text())
    reference = Reference(tf.train.latest_checkpoint(str(folder)), hparams, 0)
    columns = [i for i in range(len(originals)) if i != UNK_ID]
    generator = random.Random(3)
    error = 0.0
    for _ in range(count):
        source, target = (
            [generator.randrange(2, len(originals) - 1) for _ in range(length)] + [1]
            for length in (generator.randrange(_LONGEST) for _ in range(2))
        )
        batch = {
            "encoder_input_tokens": pad_sentences([[ours[i] for i in source]]),
            "decoder_input_tokens": shift_right(
                pad_sentences([[ours[i] for i in target]])
            ),
        }
        found = np.array(model(batch))[0]
        expected = reference.logits(source, target)[:, [originals[i] for i in columns]]
        error = max(error, float(np.abs(found[:, columns] - expected).max()))
    vocabulary = run.trained("latest").vocabulary
    lines = [
        vocabulary.decode(generator.choices(range(UNK_ID + 1, len(originals)), k=5))
        for _ in range(_LINES)
    ]
    expected = []
    for line in lines:
        source = [originals[i] for i in vocabulary.source.encode(line)]
        longest = len(source) + run.settings.decoding.extra_length
        best = _greedy(reference, source, longest)
        expected.append(vocabulary.decode([ours[i] for i in best]))
    texts = translate_by_all_routes(run.model_dir.path, lines, beam_size=1)
    return {
        "logits": f"{count} pairs, largest difference {error:.1e}",
        **{
            f"greedy, {name}": count_equal(found, expected)
            for name, found in texts.items()
        },
    }


def _greedy(reference: Reference, source: list[int], longest: int) -> list[int]:
    """Returns the ids that the reference thinks most likely, one after the other."""
    ids: list[int] = []
    while len(ids) < longest - 1:
        logits = reference.logits(source, [*ids, 1])[-1]
        ids.append(int(logits[1:].argmax()) + 1)  # never padding
        if ids[-1] == 1:
            break
    return ids
