"""Scores of word alignments: of a file, or of a model that aligns given pairs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.evaluation.alignment_error_rate import AlignmentScores, score_alignments
from t2t_keras.files.lines import check_standard_input, open_input, open_output
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
from t2t_keras.text.word_alignments import (
    WordAlignment,
    check_within,
    format_links,
    parse_alignments,
)

Pairs = Sequence[tuple[str | bytes, str | bytes]]


def evaluate_alignments(values: Mapping[str, Any]) -> str:
    """Returns what `evaluate` prints about alignments: their scores, or nothing.

    Without a model, TensorFlow is not imported.

    Raises:
        UserError: If a file cannot be used, or one is missing.
    """
    path, gold = values["alignments"], values["gold_alignments"]
    if values["model_dir"]:
        scores = _align(values)
    else:
        if values["alignment_heads"]:
            raise UserError(
                "--alignment_heads chooses attention of a model. Add --model_dir, or "
                "leave it out."
            )
        if not (path and gold):
            raise UserError(
                "Without --model_dir, --alignments and --gold_alignments belong "
                "together; one is missing."
            )
        check_standard_input([("alignments", path), ("gold_alignments", gold)])
        files = values["source"], values["reference"]
        pairs = [*open_parallel_text(*files).lines()] if files[0] else None
        scores = _score_files(path, gold, pairs)
    if scores is None:
        return ""
    if values["json"]:
        return json.dumps(scores.as_dict(), indent=2) + "\n"
    return scores.describe() + "\n"


def _score_files(path: str, gold_path: str, pairs: Pairs | None) -> AlignmentScores:
    """Returns the scores of a file of alignments, checked against pairs if given."""
    found = _read_alignments(path, "alignments", pairs)
    gold = _read_alignments(gold_path, "gold_alignments", pairs)
    if len(found) != len(gold):
        raise UserError(
            f"{path} has {len(found):,} lines, but {gold_path} has "
            f"{len(gold):,}. Line i of both must be for the same sentence pair."
        )
    return score_alignments(found, gold)


def _read_alignments(path: str, flag: str, pairs: Pairs | None) -> list[WordAlignment]:
    """Returns the alignments of a file, or of "-", checked against pairs if given."""
    with open_input(path, flag) as lines:
        alignments = list(parse_alignments(lines, f"{path} (--{flag})"))
    if not alignments:
        raise UserError(f"{path} (--{flag}) is empty. It needs a line for each pair.")
    if pairs is None:
        return alignments
    if len(alignments) != len(pairs):
        raise UserError(
            f"{path} (--{flag}) has {len(alignments):,} lines, but there are "
            f"{len(pairs):,} sentence pairs. It needs a line for each, empty if no "
            "word is aligned."
        )
    for number, (alignment, pair) in enumerate(
        zip(alignments, pairs, strict=True), start=1
    ):
        check_within(alignment, *pair, f"Line {number:,} of {path} (--{flag})")
    return alignments


def _align(values: Mapping[str, Any]) -> AlignmentScores | None:
    """Writes links of the run's model, and returns their scores; None without gold."""
    from t2t_keras.runs.model_dir import ModelDir
    from t2t_keras.runs.models import load_trained
    from t2t_keras.runs.translation.scoring import read_test_set
    from t2t_keras.runs.translation.word_aligner import WordAligner

    model_dir = ModelDir(values["model_dir"])
    trained = load_trained(model_dir, values["checkpoint"]).for_languages(
        values["source_language"], values["target_language"]
    )
    test_set = read_test_set(
        model_dir,
        values["split"],
        values["source"],
        values["reference"],
        languages=trained.languages,
    )
    pairs = list(zip(test_set.source, test_set.references, strict=True))
    aligner = WordAligner(trained, values["alignment_heads"])
    # Read first: a mistake in the file is reported before the model computes.
    gold = values["gold_alignments"]
    gold = gold and _read_alignments(gold, "gold_alignments", pairs)
    links = aligner.align(pairs)
    if values["alignments"]:
        with open_output(values["alignments"]) as output:
            output.writelines(f"{format_links(each)}\n" for each in links)
    if not gold:
        return None
    return score_alignments([WordAlignment(frozenset(each)) for each in links], gold)
