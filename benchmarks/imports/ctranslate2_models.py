"""Imports of CTranslate2's models against CTranslate2: log p and greedy search."""

import random
from pathlib import Path

import ctranslate2
import numpy as np

from benchmarks.imports.routes import (
    convert,
    count_equal,
    translate_by_all_routes,
)
from t2t_keras import Run
from t2t_keras.decoding.transformer_search import target_log_probs
from t2t_keras.text.padding import pad_sentences
from t2t_keras.text.vocabulary import EOS_ID, UNK_ID

_LONGEST = 12


def check(folder: Path, count: int, work: Path) -> dict[str, str]:
    """Returns the figures of an import.

    Args:
        folder: A model whose lines are words between spaces.
        count: Number of random lines.
        work: Empty folder for what this writes.
    """
    convert("ctranslate2", folder, work / "ctranslate2")
    run = Run(work / "ctranslate2")
    trained = run.trained("latest")
    vocabulary = trained.vocabulary
    generator = random.Random(1)
    sources, targets = (
        [
            generator.choices(
                [p for p in side.pieces(range(UNK_ID + 1, side.size)) if p != "<s>"],
                k=generator.randint(1, _LONGEST),
            )
            for _ in range(count)
        ]
        for side in (vocabulary.source, vocabulary)
    )
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    lines = [" ".join(words) for words in sources]
    greedy = translator.translate_batch(
        sources, beam_size=1, max_decoding_length=_LONGEST + 50, min_decoding_length=0
    )
    expected = [" ".join(result.hypotheses[0]) for result in greedy]
    scores = translator.score_batch(sources, targets)
    ids = {p: i for i, p in enumerate(vocabulary.pieces(range(vocabulary.size)))}
    log_probs_BT = target_log_probs(
        trained.model,
        pad_sentences([vocabulary.source.encode(line) for line in lines]),
        pad_sentences([[*map(ids.__getitem__, words), EOS_ID] for words in targets]),
    ).numpy()
    errors = [
        np.abs(log_probs_BT[row, : len(words) + 1] - np.array(score.log_probs)).max()
        for row, (words, score) in enumerate(zip(targets, scores, strict=True))
    ]
    return {
        "log p": f"{count} pairs, largest difference {max(errors):.1e}",
        **{
            f"greedy, {name}": count_equal(found, expected)
            for name, found in translate_by_all_routes(
                run.model_dir.path, lines, beam_size=1
            ).items()
        },
    }
