"""Imports of Marian's models against Marian: word scores, greedy and beam search."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.imports.routes import convert, count_equal, translate_by_all_routes
from t2t_keras import Run
from t2t_keras.decoding.transformer_search import target_log_probs
from t2t_keras.runs.models import TrainedModel
from t2t_keras.text.padding import pad_sentences
from t2t_keras.text.vocabulary import EOS_ID

_PROGRAM = Path(__file__).with_name("oracle_marian.py")
_ROWS = 32


def check(
    python: str, folder: Path, lines: Sequence[str], work: Path
) -> dict[str, str]:
    """Returns the figures of an import.

    Args:
        python: Interpreter with pymarian.
        folder: Folder of OPUS-MT's layout.
        lines: Source text.
        work: Empty folder for what this writes.
    """
    expected = ask_marian(python, folder, lines, work)
    model_dir = work / "run"
    convert("marian", folder, model_dir)
    run = Run(model_dir)
    scored = [
        (line, each)
        for line, found in zip(lines, expected["beam"], strict=True)
        for each in found
    ]
    errors = word_score_errors(run.trained("latest"), scored)
    greedy = [line.text for line in run.translate(lines, beam_size=1)]
    routes = translate_by_all_routes(model_dir, lines)
    best = [found[0]["text"] for found in expected["beam"]]
    return {
        "word scores": f"{len(errors):,}, largest difference {errors.max():.1e}",
        "greedy": count_equal(greedy, [each[0]["text"] for each in expected["greedy"]]),
        **{f"beam, {name}": count_equal(got, best) for name, got in routes.items()},
    }


def ask_marian(
    python: str, folder: Path, lines: Sequence[str], work: Path
) -> dict[str, Any]:
    """Returns Marian's translations of lines, pieces and their scores, by search.

    Args:
        python: Interpreter with pymarian.
        folder: Folder of the model.
        lines: Source text.
        work: Folder for what this writes.
    """
    text, answers = work / "lines.txt", work / "answers.json"
    text.write_text("".join(f"{line}\n" for line in lines))
    command = [python, str(_PROGRAM), str(folder), str(text), str(answers)]
    subprocess.run(command, check=True)
    return json.loads(answers.read_text())


def word_score_errors(
    trained: TrainedModel, scored: Sequence[tuple[str, dict[str, Any]]]
) -> np.ndarray:
    """Returns the difference of each token's log probability from Marian's."""
    vocabulary = trained.vocabulary
    ids = {
        piece: i for i, piece in enumerate(vocabulary.pieces(range(vocabulary.size)))
    }
    errors = []
    for first in range(0, len(scored), _ROWS):
        rows = scored[first : first + _ROWS]
        sources = [vocabulary.source.encode(line) for line, _ in rows]
        targets = [[*map(ids.get, each["pieces"]), EOS_ID] for _, each in rows]
        found_BT = target_log_probs(
            trained.model, pad_sentences(sources), pad_sentences(targets)
        ).numpy()
        for row, (_, each) in enumerate(rows):
            # A translation at the limit of its length has no end.
            count = len(each["scores"])
            errors.append(np.abs(found_BT[row, :count] - np.array(each["scores"])))
    return np.concatenate(errors)
