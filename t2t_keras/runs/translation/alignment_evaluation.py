"""Scores of word alignments: of a file, or of a model that aligns given pairs."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.evaluation.alignment_error_rate import AlignmentScores, score_alignments
from t2t_keras.files.lines import check_standard_input, open_input, open_output
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text
from t2t_keras.text.word_alignments import (
    Link,
    WordAlignment,
    check_within,
    format_links,
    parse_alignments,
)

Pairs = Sequence[tuple[str | bytes, str | bytes]]


class AlignmentFiles(NamedTuple):
    """Names of files with alignments, a line for each sentence pair.

    Attributes:
        alignments: File of a system's links: read without a model, or else written.
        gold: File of the gold links.
    """

    alignments: str | None
    gold: str | None


def evaluate_alignments(values: Mapping[str, Any]) -> str:
    """Returns what `evaluate` prints about alignments: their scores, or nothing.

    Without a model, TensorFlow is not imported.

    Args:
        values: Values of the program's flags by name.

    Raises:
        UserError: If a file cannot be used, or one is missing.
    """
    files = AlignmentFiles(values["alignments"], values["gold_alignments"])
    if values["model_dir"]:
        scores = _align(values, files)
    else:
        if values["alignment_heads"]:
            raise UserError(
                "--alignment_heads chooses attention of a model. Add --model_dir, or "
                "leave it out."
            )
        if not (files.alignments and files.gold):
            raise UserError(
                "Without --model_dir, --alignments and --gold_alignments belong "
                "together; one is missing."
            )
        check_standard_input(
            [("alignments", files.alignments), ("gold_alignments", files.gold)]
        )
        pairs = read_pairs(values["source"], values["reference"])
        scores = score_alignment_files(files, pairs)
    if scores is None:
        return ""
    if values["json"]:
        return json.dumps(scores.as_dict(), indent=2) + "\n"
    return scores.describe() + "\n"


def score_alignment_files(
    files: AlignmentFiles, pairs: Pairs | None
) -> AlignmentScores:
    """Returns the scores of a file of alignments.

    Args:
        files: Both names.
        pairs: The sentences, to check that the links are within them; None if they are
            not known.

    Raises:
        UserError: If a file is missing or malformed, the numbers of lines differ, or a
            link is outside its sentences.
    """
    found = read_alignments(files.alignments or "", "alignments", pairs)
    gold = read_alignments(files.gold or "", "gold_alignments", pairs)
    if len(found) != len(gold):
        raise UserError(
            f"{files.alignments} has {len(found):,} lines, but {files.gold} has "
            f"{len(gold):,}. Line i of both must be for the same sentence pair."
        )
    return score_alignments(found, gold)


def align_and_score(
    files: AlignmentFiles,
    pairs: Pairs,
    align: Callable[[Pairs], Sequence[Sequence[Link]]],
) -> AlignmentScores | None:
    """Returns the scores of a model's alignments of given pairs; None without gold.

    Args:
        files: Names of the gold links to compare with, and of the file to write the
            model's links to; either may be None.
        pairs: The sentences.
        align: The model: returns the links of each pair.

    Raises:
        UserError: If the gold file is missing or malformed, does not have a line for
            each pair, or has a link outside its sentences; or the file cannot be
            written.
    """
    # Read first: a mistake in the file is reported before the model computes.
    gold = files.gold and read_alignments(files.gold, "gold_alignments", pairs)
    links = align(pairs)
    if files.alignments:
        with open_output(files.alignments) as output:
            output.writelines(f"{format_links(each)}\n" for each in links)
    if not gold:
        return None
    return score_alignments([WordAlignment(frozenset(each)) for each in links], gold)


def read_alignments(
    path: str, flag: str, pairs: Pairs | None = None
) -> list[WordAlignment]:
    """Returns the alignment on each line of a file.

    Args:
        path: The file, or "-" for standard input.
        flag: Name of its flag, for messages.
        pairs: The sentences; None if they are not known.

    Raises:
        UserError: If the file is missing, empty or malformed, does not have a line for
            each pair, or has a link outside its sentences.
    """
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


def read_pairs(source: Sequence[str], reference: Sequence[str]) -> Pairs | None:
    """Returns all lines of parallel files; None if there is no file.

    Raises:
        UserError: As `open_parallel_text`.
    """
    return [*open_parallel_text(source, reference).lines()] if source else None


def _align(values: Mapping[str, Any], files: AlignmentFiles) -> AlignmentScores | None:
    """Returns the scores of the run's model on a split or on files."""
    from t2t_keras.runs.model_dir import ModelDir
    from t2t_keras.runs.models import load_trained
    from t2t_keras.runs.translation.scoring import read_test_set
    from t2t_keras.runs.translation.word_aligner import WordAligner

    model_dir = ModelDir(values["model_dir"])
    test_set = read_test_set(
        model_dir, values["split"], values["source"], values["reference"]
    )
    pairs = list(zip(test_set.source, test_set.references, strict=True))
    trained = load_trained(model_dir, values["checkpoint"])
    aligner = WordAligner(trained, values["alignment_heads"])
    return align_and_score(files, pairs, aligner.align)
