"""Filters of training pairs, by length, script, language, numbers and so on.

A filter sees normalized text and decides for each pair alone, except that a duplicate
is a pair that has occurred before. So the order of the filters does not change which
pairs are kept, only the counts: a pair counts for the first filter that rejects it.
No TensorFlow is imported.

Shapes: n pairs of a chunk.
"""

import collections
import functools
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from html.entities import html5
from typing import TypeAlias

import numpy as np

from t2t_keras.errors import UserError, require_extra
from t2t_keras.input_pipeline.corpora.fingerprints import hash_pairs
from t2t_keras.text.language_detection import LanguageDetector
from t2t_keras.text.languages import base_language

ChunkFilter: TypeAlias = Callable[[Sequence[str], Sequence[str]], np.ndarray]
"""Function of n sources and n targets, which returns [n] bool: True to reject."""

FilterMakers: TypeAlias = Mapping[str, Callable[[], ChunkFilter]]
"""Function that returns each filter, for a new corpus, by the filter's item of
--filter. Other processes can get them."""

# Script of the letters of each language, as Unicode names them, and language codes.
_SCRIPTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("LATIN",),
        "af az ca cs cy da de en eo es et eu fi fr ga gl ha hr hu id ig is it la lb lt "
        "lv mg ms mt nb nl nn no pl pt ro sk sl sq sv sw tl tr uz vi yo zu",
    ),
    (("CYRILLIC",), "be bg kk ky mk mn ru tg uk"),
    (("LATIN", "CYRILLIC"), "bs sr"),
    (("GREEK",), "el"),
    (("ARABIC",), "ar fa ps ur"),
    (("HEBREW",), "he yi"),
    (("DEVANAGARI",), "hi mr ne"),
    (("BENGALI",), "bn"),
    (("GURMUKHI",), "pa"),
    (("GUJARATI",), "gu"),
    (("TAMIL",), "ta"),
    (("TELUGU",), "te"),
    (("KANNADA",), "kn"),
    (("MALAYALAM",), "ml"),
    (("SINHALA",), "si"),
    (("THAI",), "th"),
    (("LAO",), "lo"),
    (("MYANMAR",), "my"),
    (("KHMER",), "km"),
    (("GEORGIAN",), "ka"),
    (("ARMENIAN",), "hy"),
    (("ETHIOPIC",), "am"),
    (("CJK", "BOPOMOFO"), "zh"),
    (("CJK", "HIRAGANA", "KATAKANA"), "ja"),
    (("HANGUL", "CJK"), "ko"),
)
# How many times as probable another language must be.
_SURE = 20
# A tag, comment or declaration of HTML; or an entity, whose name is in a group.
_MARKUP = re.compile(
    r"</?[a-z][a-z0-9:-]*(?:\s[^<>]*)?/?>|<!--|<![a-z]"
    r"|&(?:#[0-9]{1,7};|#x[0-9a-f]{1,6};|([a-z][a-z0-9]{1,30};))",
    re.IGNORECASE,
)
# Digits with one kind of separator before each three.
_THOUSANDS = re.compile(r"(?<!\d)\d{1,3}([.,' \u2019\u066c])\d{3}(?:\1\d{3})*(?!\d)")
_DIGITS = re.compile(r"\d{1,18}")
# Larger numbers are rarely written as words.
_MAX_NUMBER_AS_WORD = 12


def _by_pair(decide: Callable[[str, str], bool]) -> ChunkFilter:
    """Returns a filter that decides for each pair by itself: True to reject."""

    def reject(sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
        pairs = zip(sources, targets, strict=True)
        return np.array([decide(source, target) for source, target in pairs], bool)

    return reject


def exceeds_length_ratio(ratio: Fraction, unit: str) -> ChunkFilter:
    """Returns a filter of pairs one side of which is more than `ratio` times as long.

    Args:
        ratio: At least 1. A pair of exactly this ratio is kept.
        unit: "words", separated by white space, as in Moses' clean-corpus-n.perl and
            OpusFilter; or "characters", for languages without spaces.
    """
    ratio = ratio.limit_denominator(1_000_000)
    measure = len if unit == "characters" else lambda text: text.count(" ") + 1

    def reject(sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
        lengths = np.array(
            [[*map(measure, sources)], [*map(measure, targets)]], np.int64
        )
        longer, shorter = lengths.max(axis=0), lengths.min(axis=0)
        return longer * ratio.denominator > shorter * ratio.numerator

    return reject


def is_copied(sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
    """Rejects pairs whose target is the source."""
    return _by_pair(operator.eq)(sources, targets)


def copied() -> ChunkFilter:
    """Returns a filter of pairs whose target is the source."""
    return is_copied


def other_numbers() -> ChunkFilter:
    """Returns a filter of pairs whose sides have different numbers."""
    return has_other_numbers


class IsDuplicate:
    """Filter of pairs that have occurred before, which keeps the first of each.

    It remembers a hash of 64 bits per pair, in sorted arrays: 8 bytes a pair, and for a
    moment 16. Among 36 million pairs, the chance that any is taken for another is 1 in
    28,000.
    """

    def __init__(self):
        self._runs: list[np.ndarray] = []

    def __call__(self, sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
        """Returns whether each pair has occurred, and remembers all of them."""
        hashes = self.hash_pairs(sources, targets)
        is_old = np.ones(len(hashes), bool)
        is_old[np.unique(hashes, return_index=True)[1]] = False
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            is_old |= run[places] == hashes
        if not is_old.all():
            self._remember(hashes[~is_old])
        return is_old

    @staticmethod
    def hash_pairs(sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
        """Returns the hash of each pair, [n] uint64."""
        return hash_pairs(map(str.encode, sources), map(str.encode, targets))

    def _remember(self, hashes: np.ndarray) -> None:
        # Runs of similar sizes are merged, so there are few and each is sorted rarely.
        self._runs.append(np.sort(hashes))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            merged = np.concatenate([self._runs.pop(), self._runs.pop()])
            merged.sort()
            self._runs.append(merged)


def is_in_another_script(source_language: str, target_language: str) -> ChunkFilter:
    """Returns a filter of pairs a side of which is mostly in another script.

    At least half of a side's letters must be of the language's script. Digits and
    punctuation do not count; a side without letters is kept.

    Raises:
        UserError: If the script of a language is not known here.
    """
    source_scripts = _scripts_of(source_language)
    target_scripts = _scripts_of(target_language)

    def is_other(source: str, target: str) -> bool:
        return _is_mostly_other(source, source_scripts) or (
            _is_mostly_other(target, target_scripts)
        )

    return _by_pair(is_other)


def _scripts_of(language: str) -> tuple[str, ...]:
    for scripts, languages in _SCRIPTS:
        if language in languages.split():
            return scripts
    known = sorted(code for _, languages in _SCRIPTS for code in languages.split())
    raise UserError(
        f"--filter=script does not know the script of the language {language!r}. Leave "
        "it out, or set --source_language and --target_language to codes among: "
        f"{', '.join(known)}."
    )


def _is_mostly_other(text: str, scripts: tuple[str, ...]) -> bool:
    if scripts == ("LATIN",) and text.isascii():
        return False
    letters = [character for character in text if character.isalpha()]
    own = sum(script_of(letter) in scripts for letter in letters)
    return 2 * own < len(letters)


@functools.lru_cache(1 << 16)
def script_of(letter: str) -> str:
    """Returns the first word of a letter's name in Unicode, which is its script.

    It is empty for a letter without a name. Half and full width are no scripts.

    >>> [script_of(letter) for letter in "a\u0411\uff71\u30fc"]
    ['LATIN', 'CYRILLIC', 'KATAKANA', 'KATAKANA']
    """
    name = unicodedata.name(letter, "")
    name = name.removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ")
    return re.split("[ -]", name)[0]


def is_in_another_language(source_language: str, target_language: str) -> ChunkFilter:
    """Returns a filter of pairs a side of which is surely in another language.

    Surely means that another language is twenty times as probable. Few words are
    rarely sure, names and numbers never.

    Raises:
        UserError: If a language cannot be detected, or the extra `filters` is not
            installed.
    """
    require_extra("--filter=language", "filters")
    detector = LanguageDetector()
    sides = source_language, target_language
    known = detector.languages()
    for language in sides:
        if base_language(language) not in known:
            raise UserError(
                f"--filter=language cannot detect the language {language!r}. Leave it "
                "out, or set --source_language and --target_language to codes among: "
                f"{', '.join(known)}."
            )

    def is_other(text: str, language: str) -> bool:
        return detector.odds_of_another(text, language) >= _SURE

    return _by_pair(
        lambda source, target: is_other(source, sides[0]) or is_other(target, sides[1])
    )


def has_markup(user_symbols: Sequence[str] = ()) -> ChunkFilter:
    """Returns a filter of pairs with tags or entities of HTML, user symbols aside."""
    symbols = re.compile("|".join(map(re.escape, user_symbols)) or "(?!)")

    def is_marked_up(text: str) -> bool:
        if "<" not in text and "&" not in text:
            return False
        found = _MARKUP.finditer(symbols.sub("", text))
        return any(match[1] is None or match[1] in html5 for match in found)

    return _by_pair(lambda source, target: is_marked_up(source) or is_marked_up(target))


def has_other_numbers(sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
    """Rejects pairs whose sides have different numbers.

    Numbers are compared in any order and without separators of thousands; the parts of
    a date, a time or a decimal number are numbers of their own. One up to 12 may be
    missing on a side, which perhaps has a word for it.
    """
    return _by_pair(_have_other_numbers)(sources, targets)


def _have_other_numbers(source: str, target: str) -> bool:
    one, other = _count_numbers(source), _count_numbers(target)
    if one == other:
        return False
    only_one, only_other = one - other, other - one
    both_differ = bool(only_one) and bool(only_other)
    return both_differ or max([*only_one, *only_other]) > _MAX_NUMBER_AS_WORD


def _count_numbers(text: str) -> collections.Counter[int]:
    without = _THOUSANDS.sub(lambda match: re.sub(r"\D", "", match[0]), text)
    return collections.Counter(map(int, _DIGITS.findall(without)))


def first_rejections(
    filters: Sequence[ChunkFilter | None],
    sources: Sequence[str],
    targets: Sequence[str],
) -> np.ndarray:
    """Returns the number of the first filter that rejects each pair, [n]; -1 for none.

    Args:
        filters: In their order; None for one that is passed over.
        sources: n normalized texts.
        targets: n normalized texts.
    """
    rejected_by = np.full(len(sources), -1)
    for place, reject in enumerate(filters):
        left = np.flatnonzero(rejected_by < 0)
        if reject is None or not len(left):
            continue
        numbers = left.tolist()
        is_rejected = reject(
            [sources[i] for i in numbers], [targets[i] for i in numbers]
        )
        rejected_by[left[is_rejected]] = place
    return rejected_by


def count_table(name: str, pairs: int, counts: Mapping[str, int], kept: int) -> str:
    """Returns the number of pairs that each filter rejected, a line each."""
    rows = {**counts, "kept": kept}
    width = max(map(len, rows))
    lines = [f"filters of the {pairs:,} training pairs of {name} rejected"]
    lines += [f"  {each:<{width}}  {count:>12,}" for each, count in rows.items()]
    return "\n".join(lines)


def none_left_error(table: str) -> UserError:
    """Returns the error for a corpus of which the filters leave no pair."""
    return UserError(
        f"No sentence pair is left to train on: {table}\n"
        "Leave a filter out, or check that the files are parallel and their "
        "languages right. --rejected=FILE writes the rejected pairs."
    )


def rejected_row(line: str, name: str, source: str, target: str) -> str:
    """Returns the line of a rejected pair in the file of --rejected."""
    return f"{line}\t{name}\t{source}\t{target}\n"
