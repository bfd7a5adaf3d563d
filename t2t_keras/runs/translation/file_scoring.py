"""Scores of files, by whatever system they were written; no model is needed.

Text is scored by `t2t_keras.evaluation.comparison`, trees by the parser's task. This
module imports no TensorFlow.
"""

import dataclasses
import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from t2t_keras.errors import UserError
from t2t_keras.evaluation.comparison import (
    Comparison,
    ScoringSettings,
    score_translations,
)
from t2t_keras.evaluation.compound_bleu import NO_SPACES, moses_languages
from t2t_keras.evaluation.tokenizers import bleu_warnings, has_no_spaces, tokenizer_for
from t2t_keras.files.lines import (
    check_standard_input,
    holds_both_sides,
    open_input,
    text_suffix,
)
from t2t_keras.files.text_checks import CountedLines, is_utf8
from t2t_keras.input_pipeline.corpora.parallel_text import (
    TreeReader,
    read_lines,
)
from t2t_keras.runs.tasks import TREES, CorpusScores, Task, task_for

logger = logging.getLogger(__name__)

# Line numbers in a warning; a file with more invalid lines has another encoding.
_MAX_LISTED = 10
# A tree with at least two constituents on a line: (S (NP ...) ...).
_NESTED_BRACKETS = re.compile(r"\s*\(\s*[^\s()]*\s*\(.*\)\s*")


@dataclasses.dataclass(frozen=True)
class ScoredFiles:
    """Names of the files to score.

    Attributes:
        hypotheses: The systems' outputs, a file for each; "-" is standard input.
        reference: Files of the references, one after another; a .mrg holds trees.
        extra_references: Files of further references of the same sentences.
        target_language: Code of the language, or "tree". Default: the ending of the
            first reference's name, if it is one that Moses or sacreBLEU has rules for,
            or of a language without spaces.
    """

    hypotheses: Sequence[str]
    reference: Sequence[str]
    extra_references: Sequence[str] = ()
    target_language: str | None = None

    @property
    def holds_trees(self) -> bool:
        """Whether trees are scored."""
        by_name = any(map(_is_treebank, self.reference))
        return self.target_language == TREES or by_name

    @property
    def language(self) -> str | None:
        """The target language, as far as the flag or the names tell."""
        if self.target_language:
            return self.target_language
        ending = text_suffix(self.reference[0])[1:]
        known = ending in moses_languages() or tokenizer_for(ending) != "13a"
        return ending if known or has_no_spaces(ending) else None

    def check(self) -> None:
        """Raises `UserError` if names are missing or contradict each other."""
        if not self.reference:
            raise UserError(
                "--reference is required with --hypotheses: the file of the right "
                "translations, line by line."
            )
        flags = (
            *(("hypotheses", name) for name in self.hypotheses),
            *(("reference", name) for name in self.reference),
            *(("extra_reference", name) for name in self.extra_references),
        )
        check_standard_input(flags)
        paths = [os.path.realpath(name) for name in self.hypotheses]
        for name, path in zip(self.hypotheses, paths, strict=True):
            if paths.count(path) > 1:
                raise UserError(f"--hypotheses names {name} twice. Give it once.")
        names = (*self.hypotheses, *self.reference, *self.extra_references)
        for name in names:
            if holds_both_sides(name) and not _is_treebank(name):
                raise UserError(
                    f"{name} holds both sides. Give a file of the translations alone; "
                    "of a .tsv, cut -f2 writes the second column."
                )
        if self.holds_trees:
            self._check_trees()
        elif trees := [name for name in self.hypotheses if _is_treebank(name)]:
            raise UserError(
                f"{trees[0]} holds trees, but {self.reference[0]} holds text. Give "
                "trees as --reference, or --target_language=tree if it holds them."
            )

    def _check_trees(self) -> None:
        if self.target_language not in (None, TREES):
            raise UserError(
                f"{self.reference[0]} holds trees, but --target_language is "
                f"{self.target_language}. Leave it out, or give text as --reference."
            )
        if self.extra_references:
            raise UserError(
                "--extra_reference is for text: EVALB scores trees against one right "
                "tree each. Leave it out."
            )


def _is_treebank(name: str) -> bool:
    return text_suffix(name) == ".mrg"


@dataclasses.dataclass(frozen=True)
class TreeComparison:
    """EVALB's scores of each system, by name."""

    systems: Mapping[str, CorpusScores]

    def describe(self) -> str:
        """Returns EVALB's output for each system, below the two F1s."""
        parts = []
        for name, scores in self.systems.items():
            table = scores.table.splitlines()
            # The other lines are EVALB's summary, which ends the table.
            lines = [line for line in scores.lines() if line not in table]
            parts.append("\n".join([name, *(f"  {line}" for line in lines), *table]))
        return "\n\n".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Returns the scores in JSON values."""
        return {
            "systems": [
                {"name": name, "scores": scores.as_dict()}
                for name, scores in self.systems.items()
            ]
        }


def score_files(
    files: ScoredFiles,
    settings: ScoringSettings = ScoringSettings(),  # noqa: B008 - frozen
    cutoff_length: int | None = None,
) -> Comparison | TreeComparison:
    """Returns the scores of files of translations or of trees.

    Args:
        files: Names of the files.
        settings: What text is scored by; its language is the files'.
        cutoff_length: Maximum words of a sentence in EVALB's second summary.
            Default: EVALB's own.

    Raises:
        UserError: If a file is missing or empty, files have different numbers of
            lines, or a setting is not for this kind of file.
    """
    files.check()
    if files.holds_trees:
        _check_defaults(settings)
        return _score_trees(files, cutoff_length)
    if cutoff_length is not None:
        raise UserError(
            "--cutoff_length is for trees, but the references are text. Leave it out. "
            f"Received: {cutoff_length}"
        )
    return _score_text(files, settings)


def _check_defaults(settings: ScoringSettings) -> None:
    """Raises `UserError` if a setting is not the default."""
    for field in dataclasses.fields(settings):
        if getattr(settings, field.name) != field.default:
            raise UserError(
                f"--{field.name} is for text, but the references are trees, which "
                "EVALB's rules score. Leave it out."
            )


def _score_text(files: ScoredFiles, settings: ScoringSettings) -> Comparison:
    references = [
        _read_text(names, "reference")
        for names in (files.reference, *([name] for name in files.extra_references))
    ]
    hypotheses = {name: _read_text([name], "hypotheses") for name in files.hypotheses}
    sides = {_join(files.reference): references[0]}
    sides |= dict(zip(files.extra_references, references[1:], strict=True))
    sides |= hypotheses
    for name, lines in sides.items():
        _check_no_trees(name, lines)
    _check_counts({name: len(lines) for name, lines in sides.items()})
    for name, lines in sides.items():
        periods = sum(line.endswith(" .") for line in lines)
        if settings.tokenize != "none" and periods > len(lines) / 2:
            logger.warning(
                f"{name} looks tokenized: {periods:,} of {len(lines):,} lines "
                "end in a separate period. The metrics tokenize by themselves; scores "
                "of plain text are the ones to compare."
            )
    language = files.language
    settings = dataclasses.replace(settings, language=language)
    if not settings.metrics or "bleu" in settings.metrics:
        for warning in bleu_warnings(language, settings.tokenizer, references[0]):
            logger.warning(warning)
    if not settings.metrics and has_no_spaces(language):
        logger.info(
            f"TER and tokenized BLEU are left out: {NO_SPACES.format(language)}"
        )
    elif not settings.metrics and language not in moses_languages():
        logger.info(
            "tokenized BLEU is left out: Moses needs a --target_language that it has "
            f"rules for, such as de. Received: {language or 'none'}"
        )
    return score_translations(
        hypotheses,
        references[0],
        extra_references=references[1:],
        **dataclasses.asdict(settings),
    )


def _read_text(names: Sequence[str], flag: str) -> list[str]:
    """Returns the lines of files, and logs which are not valid UTF-8."""
    counted = CountedLines(_read_bytes(names), _join(names))
    lines = list(counted)
    invalid = [n for n, line in enumerate(lines, start=1) if not is_utf8(line)]
    if invalid:
        numbers = ", ".join(map(str, invalid[:_MAX_LISTED]))
        more = ", …" if len(invalid) > _MAX_LISTED else ""
        logger.warning(
            f"{_join(names)} (--{flag}): {counted.warning} Lines: {numbers}{more}"
        )
    return [line.decode("utf-8", errors="replace") for line in lines]


def _read_bytes(names: Sequence[str]) -> list[bytes]:
    if list(names) == ["-"]:
        with open_input("-") as lines:
            return list(lines)
    return list(read_lines(names))


def _join(names: Sequence[str]) -> str:
    return ",".join(names)


def _check_counts(counts: Mapping[str, int], unit: str = "lines") -> None:
    """Raises `UserError` if counts differ from the first, or that is 0."""
    (reference, expected), *others = counts.items()
    if not expected:
        raise UserError(
            f"{reference} is empty: there is no sentence to score (--reference)."
        )
    for name, count in others:
        if count != expected:
            raise UserError(
                f"{name} has {count:,} {unit}, but {reference} has {expected:,}. Line "
                "i of one must be for the same sentence as line i of the other: check "
                "that both are of the same test set, and complete."
            )


def _check_no_trees(name: str, lines: Sequence[str]) -> None:
    """Raises `UserError` if most lines are in nested brackets, as trees are."""
    filled = [line for line in lines if line.strip()]
    if sum(_NESTED_BRACKETS.fullmatch(line) is not None for line in filled) > (
        len(filled) / 2
    ):
        raise UserError(
            f"{name} holds trees in brackets, not text. To score trees, give "
            "--target_language=tree."
        )


def _score_trees(files: ScoredFiles, cutoff_length: int | None) -> TreeComparison:
    task = task_for(TREES)
    score = task.scorer(cutoff_length)
    gold = _read_trees(task, files.reference, "reference")
    systems = {
        name: _read_trees(task, [name], "hypotheses", len(gold))
        for name in files.hypotheses
    }
    counts = {_join(files.reference): gold} | systems
    _check_counts({name: len(trees) for name, trees in counts.items()}, "trees")
    adapter = task.text_adapter(splits_words=False)
    sources, references = zip(*gold, strict=True)
    return TreeComparison(
        {
            name: score(sources, [adapter.answer(*tree) for tree in trees], references)
            for name, trees in systems.items()
        }
    )


def _read_trees(
    task: Task,
    names: Sequence[str],
    flag: str,
    expected: int | None = None,
) -> list[tuple[str, str]]:
    """Returns words and symbols of each tree, cleaned as a treebank's for training.

    If as many are `expected` as there are lines, an empty line has no tree.
    """
    read = cast(TreeReader, task.read_trees)
    lines = [line.encode() for line in _read_text(names, flag)]
    pairs = list(read(lines, _join(names)))
    if len(pairs) != expected == len(lines):
        by_line = [list(read([line], _join(names))) for line in lines]
        if max(map(len, by_line)) <= 1:
            pairs = [trees[0] if trees else (b"", b"") for trees in by_line]
    return [(source.decode(), target.decode()) for source, target in pairs]
