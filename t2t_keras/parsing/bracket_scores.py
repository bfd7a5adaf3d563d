"""Labeled bracket scores of trees, counted as EVALB counts them.

EVALB is the C program by Sekine and Collins that the field's scores come from; its
rules are those of its parameter file COLLINS.prm. Comments name its unexpected rules.
Its limits on file size (lines of 5,000 bytes, 200 words, 200 brackets) are left out.
"""

import collections
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from t2t_keras.errors import UserError
from t2t_keras.parsing.tag_matching import DELETED_MARKS
from t2t_keras.parsing.trees import EMPTY_ELEMENT, ROOT, Tree, walk

# DELETE_LABEL: words with one of these parts of speech are taken out before words
# are numbered, and constituents with one of these labels are not counted. The
# exclamation mark's part of speech is "."; brackets (-LRB-) and $ stay.
_DELETED = frozenset({ROOT, EMPTY_ELEMENT, *DELETED_MARKS})
# EQ_LABEL ADVP PRT: of constituents, and of parts of speech as well.
_EQUAL = {"PRT": "ADVP"}
# CUTOFF_LEN: sentences up to here have a summary of their own.
CUTOFF_LENGTH = 40
# MAX_ERROR.
MOST_ERRORS = 10

VALID, ERROR, SKIPPED = 0, 1, 2


@dataclass(frozen=True)
class SentenceScore:
    """EVALB's counts for one sentence.

    Attributes:
        status: VALID, ERROR (its words are not the right ones) or SKIPPED (it has no
            words); in both latter cases nothing below is counted but the length.
        length: Words of the right tree, punctuation counted, traces not.
        matched: Brackets of both trees, each with its label and words.
        gold: Brackets of the right tree.
        test: Brackets of the tree that is scored.
        crossing: Brackets of the latter that cross one or more of the former.
        words: Words of the right tree, without punctuation.
        tags: Number of these with the right part of speech.
        fault: Error in EVALB's words; "" if there is none.
    """

    status: int
    length: int
    matched: int = 0
    gold: int = 0
    test: int = 0
    crossing: int = 0
    words: int = 0
    tags: int = 0
    fault: str = ""

    @property
    def complete(self) -> bool:
        """Whether all brackets match. A sentence without any counts as complete."""
        return self.matched == self.gold == self.test


@dataclass(frozen=True)
class BracketScores:
    """Sums over a set of sentences, and the percentages that EVALB reports.

    Attributes:
        sentences: Number of all sentences.
        errors: Number of sentences with wrong words.
        skipped: Number of sentences without words.
        complete: Number of valid sentences with all brackets right.
        without_crossing: Number of valid sentences without a crossing bracket.
        few_crossings: Number of valid sentences with at most 2.
    """

    sentences: int
    errors: int
    skipped: int
    complete: int
    without_crossing: int
    few_crossings: int
    matched: int
    gold: int
    test: int
    crossing: int
    words: int
    tags: int

    @property
    def valid(self) -> int:
        """Number of sentences that are neither in error nor skipped."""
        return self.sentences - self.errors - self.skipped

    @property
    def recall(self) -> float:
        """Percentage of right brackets that were found; 0 if there is none."""
        return percent(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """Percentage of found brackets that are right; 0 if there is none."""
        return percent(self.matched, self.test)

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision; 0 where EVALB prints a NaN."""
        both = self.recall + self.precision
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def tagging(self) -> float:
        """Percentage of words with the right part of speech."""
        return percent(self.tags, self.words)


def percent(part: int, whole: int) -> float:
    """Returns a part as a percentage of a whole; 0 if the whole is 0."""
    return 100 * part / whole if whole else 0.0


def sentence_scores(
    gold: Iterable[Tree | None],
    test: Iterable[Tree | None],
    most_errors: int | None = MOST_ERRORS,
) -> Iterator[SentenceScore]:
    """Yields EVALB's counts for each sentence.

    Args:
        gold: The right trees, clean or with traces and function tags.
        test: The trees to score, in the same order; None is a sentence without one.
        most_errors: Stops where EVALB stops, which is one later than MAX_ERROR
            sounds: 10 sentences with other words than the right ones pass, and the
            11th, and the 12th ends it. If None, any number passes.

    Raises:
        UserError: If there are more errors, or the numbers of trees differ.
    """
    ended, errors = object(), 0
    pairs = itertools.zip_longest(gold, test, fillvalue=ended)
    for number, (gold_tree, test_tree) in enumerate(pairs, start=1):
        if ended in (gold_tree, test_tree):
            sides = ("found", "right") if gold_tree is ended else ("right", "found")
            raise UserError(
                f"There are {number} {sides[0]} trees or more, but {number - 1} "
                f"{sides[1]} ones. Each tree is scored against one: check that both "
                "files are of the same sentences."
            )
        score = _score_sentence(gold_tree, test_tree)  # type: ignore[arg-type]
        errors += score.status == ERROR
        if most_errors is not None and errors > most_errors + 1:
            raise UserError(
                f"Sentence {number} is number {errors} whose words are not those of "
                f"the right tree ({score.fault}). The trees belong to other sentences, "
                "or were split into words by other rules."
            )
        yield score


def sum_scores(sentences: Iterable[SentenceScore]) -> BracketScores:
    """Returns the sums of sentences: recall is over all brackets, not a mean."""
    scores = list(sentences)
    valid = [score for score in scores if score.status == VALID]
    return BracketScores(
        sentences=len(scores),
        errors=sum(score.status == ERROR for score in scores),
        skipped=sum(score.status == SKIPPED for score in scores),
        complete=sum(score.complete for score in valid),
        without_crossing=sum(score.crossing == 0 for score in valid),
        few_crossings=sum(score.crossing <= 2 for score in valid),
        matched=sum(score.matched for score in valid),
        gold=sum(score.gold for score in valid),
        test=sum(score.test for score in valid),
        crossing=sum(score.crossing for score in valid),
        words=sum(score.words for score in valid),
        tags=sum(score.tags for score in valid),
    )


@dataclass(frozen=True)
class _Brackets:
    """Words and brackets of a tree, each in order, as EVALB counts them."""

    leaves: list[Tree]
    brackets: list[tuple[int, int, str]]
    length: int


def _read_brackets(tree: Tree | None) -> _Brackets:
    leaves: list[Tree] = []
    brackets: list[tuple[int, int, str]] = []
    open_: list[tuple[int, str]] = []
    length = 0
    for step in walk(tree) if tree else ():
        if isinstance(step, Tree):
            # The part of speech is compared as written: -NONE-, but not -NONE-1.
            length += step.label != EMPTY_ELEMENT
            if step.label not in _DELETED:
                leaves.append(step)
        elif step is not None:
            open_.append((len(leaves), step))
        else:
            start, label = open_.pop()
            label = _strip_label(label)
            # A bracket over punctuation alone is one over nothing.
            if start < len(leaves) and label not in _DELETED:
                brackets.append((start, len(leaves), _merge_equal_labels(label)))
    return _Brackets(leaves, brackets, length)


def _strip_label(label: str) -> str:
    """Returns a label up to its first - or =, which may be its first character.

    So a constituent -NONE- counts, with the label "".
    """
    return label.split("-", 1)[0].split("=", 1)[0]


def _merge_equal_labels(label: str) -> str:
    return _EQUAL.get(label, label)


def _score_sentence(gold: Tree | None, test: Tree | None) -> SentenceScore:
    gold_parse, test_parse = _read_brackets(gold), _read_brackets(test)
    if not test_parse.leaves:
        # Punctuation alone is skipped too, with any right tree.
        return SentenceScore(SKIPPED, gold_parse.length)
    fault = _find_fault(gold_parse.leaves, test_parse.leaves)
    if fault:
        return SentenceScore(ERROR, gold_parse.length, fault=fault)
    # As often as both have it: brackets over the same words with the same label are
    # several brackets.
    both = collections.Counter(gold_parse.brackets) & collections.Counter(
        test_parse.brackets
    )
    return SentenceScore(
        VALID,
        gold_parse.length,
        matched=both.total(),
        gold=len(gold_parse.brackets),
        test=len(test_parse.brackets),
        crossing=_count_crossing(gold_parse, test_parse),
        words=len(gold_parse.leaves),
        # Parts of speech are compared whole: NN is not NN-1.
        tags=sum(
            _merge_equal_labels(one.label) == _merge_equal_labels(other.label)
            for one, other in zip(gold_parse.leaves, test_parse.leaves, strict=True)
        ),
    )


def _find_fault(gold: list[Tree], test: list[Tree]) -> str:
    """Returns the reason two sentences cannot be compared, without punctuation; or "".

    A word whose part of speech is punctuation's on one side alone makes the lengths
    differ: a wrong tag costs the whole sentence.
    """
    if len(gold) != len(test):
        return f"Length unmatch ({len(gold)}|{len(test)})"
    for one, other in zip(gold, test, strict=True):
        if one.word != other.word:
            return f"Words unmatch ({one.word}|{other.word})"
    return ""


def _count_crossing(gold_parse: _Brackets, test_parse: _Brackets) -> int:
    """Returns the number of brackets that overlap a right one without nesting."""
    # For each word, the farthest end of the right brackets that start there, and the
    # earliest start of those that end before it. The others add nothing.
    farthest = list(range(len(gold_parse.leaves) + 1))
    earliest = list(range(len(gold_parse.leaves) + 1))
    for start, end, _ in gold_parse.brackets:
        farthest[start] = max(farthest[start], end)
        earliest[end] = min(earliest[end], start)
    return sum(
        max(farthest[start + 1 : end], default=end) > end
        or min(earliest[start + 1 : end], default=start) < start
        for start, end, _ in test_parse.brackets
    )
