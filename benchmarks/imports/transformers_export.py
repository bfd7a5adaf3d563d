"""Exports to transformers against transformers: logits, greedy and beam search."""

import dataclasses
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks.imports.random_weights import with_random_weights
from benchmarks.imports.routes import count_equal
from benchmarks.imports.transformers_mt import PROGRAM
from t2t_keras import Run
from t2t_keras.runs import translators
from t2t_keras.runs.export.transformers import export_transformers
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import TrainedModel
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.padding import pad_sentences, shift_right

_SEARCH = DecodingConfig(beam_size=4, length_penalty="power", alpha=0.8)
# Models with random weights, of architectures that are written in other ways.
_RANDOM: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "untied": MappingProxyType(
            {"tie_output": False, "activation": "gelu", "attention_bias": True}
        ),
        "two embeddings": MappingProxyType(
            {"share_embeddings": False, "output_bias": True}
        ),
        "a start piece": MappingProxyType(
            {"decoder_start": "<unk>", "position_layout": "halves"}
        ),
        "small heads": MappingProxyType(
            {"num_heads": 2, "d_k": 7, "d_v": 11, "activation": "swish"}
        ),
    }
)


def check(
    python: str, run: Path, lines: Sequence[str], work: Path
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the name and the figures of each export.

    Args:
        python: Interpreter with torch and transformers.
        run: A model directory.
        lines: Source text.
        work: Empty folder for what this writes.
    """
    trained = Run(run).trained("averaged")
    yield run.name, _check(python, trained, lines, work / "trained")
    for number, (name, options) in enumerate(_RANDOM.items()):
        other = with_random_weights(trained, options)
        yield name, _check(python, other, lines[:40], work / f"random-{number}")


def _check(
    python: str, trained: TrainedModel, lines: Sequence[str], work: Path
) -> dict[str, str]:
    folder = export_transformers(trained, ModelDir(work), _SEARCH)
    text, answers = work / "lines.txt", work / "answers.json"
    text.write_text("".join(f"{line}\n" for line in lines))
    command = [python, str(PROGRAM), str(folder), str(text), str(answers), "--loaded"]
    subprocess.run(command, check=True)
    expected = json.loads(answers.read_text())
    own_source, own_target = _own_ids(folder, trained)
    error = 0.0
    for pair in expected["logits"]:
        source = pad_sentences([[own_source[i] for i in pair["source"]]])
        target = pad_sentences([[own_target[i] for i in pair["target"]]])
        batch = {
            "encoder_input_tokens": source,
            "decoder_input_tokens": shift_right(target),
        }
        found = np.array(trained.model(batch))[0]
        theirs = np.array(pair["logits"])
        shared = [i for i, own_id in own_target.items() if own_id]
        off = np.abs(found[:, [own_target[i] for i in shared]] - theirs[:, shared])
        error = max(error, float(off.max()))
    ids = [
        [own_source[i] for i in each] == trained.vocabulary.source.encode(line)
        for each, line in zip(expected["source_ids"], lines, strict=True)
    ]
    figures = {
        "source ids": f"{sum(ids)} of {len(ids)}",
        "logits": f"largest difference {error:.1e}",
    }
    for name, beam in (("greedy", 1), ("beam", _SEARCH.beam_size)):
        search = dataclasses.replace(_SEARCH, beam_size=beam)
        translator = translators.text_translator(trained, search)
        found = [line.text for line in translator.translate(lines)]
        figures[name] = count_equal(found, [each["text"] for each in expected[name]])
    return figures


def _own_ids(
    folder: Path, trained: TrainedModel
) -> tuple[dict[int, int], dict[int, int]]:
    """Returns our id of each source id and of each target id of theirs, by pieces."""
    vocabulary, maps = trained.vocabulary, []
    source = json.loads((folder / "vocab.json").read_text("utf-8"))
    path = folder / "target_vocab.json"
    target = json.loads(path.read_text("utf-8")) if path.is_file() else source
    for side, theirs in ((vocabulary.source, source), (vocabulary, target)):
        pieces = side.pieces(range(side.size))
        own = {piece: i for i, piece in enumerate(pieces)}
        maps.append({i: own[piece] for piece, i in theirs.items() if piece in own})
    return maps[0], maps[1]
