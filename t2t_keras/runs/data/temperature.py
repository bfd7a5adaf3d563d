"""Rates of a mixture by temperature: arithmetic before training, which sees only rates.

At temperature T, corpus i of n_i pairs is seen in proportion to n_i^(1/T): 1 keeps the
proportions of the sizes, 5 is usual for many languages (Arivazhagan et al. 2019), and
larger ones approach equal shares. The main corpus has rate 1, so another one has
(n_0 / n_i)^(1 - 1/T).
"""

import dataclasses
import logging
import math
import shlex
from collections.abc import Sequence
from fractions import Fraction

from t2t_keras.errors import UserError
from t2t_keras.files.remote import as_path
from t2t_keras.input_pipeline.corpora.corpus import Corpus
from t2t_keras.input_pipeline.records.manifest import read_manifest
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.data.mixing import MixturePart, RecordsPart, open_parts
from t2t_keras.settings.config import ExperimentConfig, make_paths_absolute
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.flags import comma_separated
from t2t_keras.settings.training_text import MAX_RATE, parse_mixture_item

logger = logging.getLogger(__name__)

# Relative error of a rate that is allowed for a small denominator.
_TOLERANCE = Fraction(1, 100)


@dataclasses.dataclass(frozen=True)
class TemperatureRates:
    """Rates of a mixture.

    Attributes:
        flag: --mixture with the rates, quoted for a shell.
        table: Sizes, rates and shares of all corpora, a line each.
    """

    flag: str
    table: str


def temperature_rates(config: DataConfig, temperature: float) -> TemperatureRates:
    """Returns the rates of the mixture in the settings, whose own rates do not matter.

    A corpus counts with its pairs of text on both sides, after filters; records with
    all that they hold.

    Raises:
        UserError: If a corpus cannot be read or is empty, or a rate would be too large.
    """
    items = [parse_mixture_item(item) for item in config.mixture]
    # Read by absolute paths, and printed as they were given.
    config = make_paths_absolute(ExperimentConfig(data=config)).data
    config = dataclasses.replace(config, records=None)
    with from_settings.open_filters(config, writes=False) as filters:
        corpus = from_settings.build_corpus(config, ("train",))
        corpus.chunks("train")  # raises UserError without a train split
        for warning in corpus.splits["train"].warnings:
            logger.warning(warning)
        corpus = filters.apply(corpus)
        parts = open_parts(config, filters)
    names = ["main corpus", *(item.name for item in items)]
    sizes = [_count_pairs(corpus), *map(_size, parts)]
    for name, size in zip(names, sizes, strict=True):
        if not size:
            raise UserError(f"There is no sentence pair in: {name}. Leave it out.")
    rates = [Fraction(1), *(rate_at(temperature, sizes[0], n) for n in sizes[1:])]
    for name, rate in zip(names, rates, strict=True):
        if rate > MAX_RATE:
            raise UserError(
                f"At --temperature={temperature:g} an epoch would have each pair of "
                f"{name} {round(rate):,} times; at most {MAX_RATE:,} are allowed. Give "
                "a lower temperature, or leave the corpus out."
            )
    texts = [
        ":".join([item.name, str(rate), *filter(None, [item.tag])])
        for item, rate in zip(items, rates[1:], strict=True)
    ]
    flag = shlex.quote(f"--mixture={comma_separated(texts)}")
    return TemperatureRates(flag, _format_table(names, sizes, rates))


def rate_at(temperature: float, main_size: int, size: int) -> Fraction:
    """Returns the rate of a corpus at a temperature.

    It is within 1 %, with the smallest denominator that allows this, and the nearest
    of these.
    """
    exact = Fraction((main_size / size) ** (1 - 1 / temperature))
    margin = exact * _TOLERANCE
    denominator = simplest_between(exact - margin, exact + margin).denominator
    return Fraction(round(exact * denominator), denominator)


def simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Returns the fraction from `low` to `high` with the smallest denominator.

    >>> simplest_between(Fraction("0.331"), Fraction("0.335"))
    Fraction(1, 3)
    """
    whole = math.ceil(low)
    if whole <= high:
        return Fraction(whole)
    rest = simplest_between(1 / (high - whole + 1), 1 / (low - whole + 1))
    return whole - 1 + 1 / rest


def _size(part: MixturePart) -> int:
    if isinstance(part, RecordsPart):
        return read_manifest(as_path(part.item.name)).report.pairs_kept
    return _count_pairs(part.corpus)


def _count_pairs(corpus: Corpus) -> int:
    number = corpus.splits["train"].num_pairs
    if number is not None:
        return number
    return sum(len(source) for source, _ in corpus.chunks("train"))


def _format_table(
    names: Sequence[str], sizes: Sequence[int], rates: Sequence[Fraction]
) -> str:
    seen = [size * rate for size, rate in zip(sizes, rates, strict=True)]
    rows = [("corpus", "pairs", "share", "rate", "in an epoch", "share")]
    for name, size, rate, pairs in zip(names, sizes, rates, seen, strict=True):
        shares = (size / sum(sizes), float(pairs / sum(seen)))
        first, second = (f"{share:.1%}" for share in shares)
        rows.append((name, f"{size:,}", first, str(rate), f"{round(pairs):,}", second))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
        )
        for row in rows
    )
