"""Exports to Marian against Marian: word scores, greedy and beam search."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks.imports.marian import ask_marian, word_score_errors
from benchmarks.imports.random_weights import with_random_weights
from benchmarks.imports.routes import count_equal
from t2t_keras import Run
from t2t_keras.runs import translators
from t2t_keras.runs.export.marian import export_marian
from t2t_keras.runs.models import TrainedModel
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.padding import pad_sentences, shift_right
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID

# That of the oracle.
_SEARCH = DecodingConfig(beam_size=6, length_penalty="power", alpha=1.0)
_RANDOM_LINES = 40
# Models with random weights, of architectures that are written in other ways.
_RANDOM: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "the classic type": MappingProxyType(
            {
                "position_layout": "halves_t2t",
                "activation": "swish",
                "attention_bias": True,
                "output_bias": True,
            }
        ),
        "pre-norm, two embeddings": MappingProxyType(
            {"normalization": "pre", "share_embeddings": False, "output_bias": True}
        ),
        "untied, a start piece, epsilon 1e-3": MappingProxyType(
            {
                "tie_output": False,
                "decoder_start": "<unk>",
                "layer_norm_epsilon": 1e-3,
                "activation": "swish",
                "position_layout": "halves",
                "first_position": 2,
            }
        ),
        "learned positions, small heads": MappingProxyType(
            {"learned_positions": 60, "num_heads": 2, "d_k": 7, "d_v": 11}
        ),
    }
)


def check(
    python: str, run: Path, lines: Sequence[str], work: Path
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the name and the figures of each export.

    Args:
        python: Interpreter with pymarian.
        run: A model directory.
        lines: Source text.
        work: Empty folder for what this writes.
    """
    trained = Run(run).trained("averaged")
    figures, expected = _check(python, trained, lines, work / "trained")
    for name, beam in (("greedy", 1), ("beam", _SEARCH.beam_size)):
        search = dataclasses.replace(_SEARCH, beam_size=beam)
        translator = translators.text_translator(trained, search)
        found = [line.text for line in translator.translate(lines)]
        best = [each[0]["text"] for each in expected[name]]
        figures[f"{name}, translations"] = count_equal(found, best)
    yield run.name, figures
    for number, (name, options) in enumerate(_RANDOM.items()):
        other = with_random_weights(trained, options)
        folder = work / f"random-{number}"
        yield name, _check(python, other, lines[:_RANDOM_LINES], folder)[0]


def _check(
    python: str, trained: TrainedModel, lines: Sequence[str], work: Path
) -> tuple[dict[str, str], dict[str, Any]]:
    folder = export_marian(trained, work, _SEARCH)
    expected = ask_marian(python, folder, lines, work)
    scored = [
        (line, each)
        for line, found in zip(lines, expected["beam"], strict=True)
        for each in found
    ]
    errors = word_score_errors(trained, scored)
    greedy = [
        _is_greedy(trained, line, found[0]["pieces"])
        for line, found in zip(lines, expected["greedy"], strict=True)
    ]
    figures = {
        "word scores": f"{len(errors):,}, largest difference {errors.max():.1e}",
        "greedy, likeliest at each step": f"{sum(greedy)} of {len(greedy)}",
    }
    return figures, expected


def _is_greedy(trained: TrainedModel, line: str, pieces: Sequence[str]) -> bool:
    """Returns whether each piece is the likeliest after those before it.

    Random models run to the limit of the length, which Marian counts in another way.
    """
    vocabulary = trained.vocabulary
    ids = {p: i for i, p in enumerate(vocabulary.pieces(range(vocabulary.size)))}
    target = pad_sentences([[*map(ids.__getitem__, pieces), EOS_ID]])
    logits = trained.model(
        {
            "encoder_input_tokens": pad_sentences([vocabulary.source.encode(line)]),
            "decoder_input_tokens": shift_right(target),
        }
    )
    likely = np.array(logits)[0, : len(pieces)]
    likely[:, PAD_ID] = -np.inf
    return bool(np.array_equal(likely.argmax(axis=-1), target[0, : len(pieces)]))
