"""Hypothesis strategy for random settings, for properties of all valid settings."""

import functools
import re
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st

from t2t_keras.settings.config import ExperimentConfig, sections, unflatten
from t2t_keras.settings.setting import default_values, settings_of, value_types

# Characters of paths, and those that separate or quote list items or start a comment.
_TEXTS = st.text(
    st.one_of(
        st.sampled_from("ab ,\"'=#-/\\é†"),
        st.characters(exclude_categories=["Cs", "Cc"]),
    ),
    min_size=1,
    max_size=8,
).filter(
    # Hypothesis also draws string constants of imported modules, such as the endings of
    # tree files, which are valid only for parsers.
    lambda text: text == text.strip() and not text.endswith((".mrg", ".mrg.gz"))
)
_NAMES = _TEXTS.filter(lambda text: ":" not in text)
_RATES = st.fractions(Fraction(1, 10**9), 1000)
_SYMBOLS = _NAMES.filter(lambda text: text.split() == [text] and "\u2581" not in text)
_TAGS = _SYMBOLS.map(lambda text: f"<{text}>")  # a tag is no number
_ITEMS = st.builds(
    lambda names, rate, tags: ":".join([*names, str(rate), *tags]),
    st.lists(_NAMES, min_size=1, max_size=2),
    _RATES,
    st.lists(_TAGS, max_size=1),
)
_FILTERS = st.one_of(
    st.sampled_from(["copied", "duplicates", "script"]),
    st.fractions(1, 1000).map(lambda ratio: f"length_ratio:{ratio}"),
)


_LISTS = MappingProxyType(
    {
        "mixture": st.lists(_ITEMS, max_size=3),
        "filter": st.lists(
            _FILTERS, max_size=3, unique_by=lambda item: item.partition(":")[0]
        ),
        "user_symbols": st.lists(_TAGS, max_size=3, unique=True).map(
            lambda tags: [tag for tag in tags if not re.match("<(pad|unk|/?s|0x)", tag)]
        ),
    }
)


def _values(section: type, name: str) -> st.SearchStrategy[Any]:
    kind, described = value_types(section)[name], settings_of(section)[name]
    low, high = described.low, described.high
    if described.choices:
        return st.sampled_from(described.choices)
    if name in _LISTS:
        return _LISTS[name].map(tuple)
    if kind.is_tuple:
        return st.lists(_TEXTS, max_size=3).map(tuple)
    strategies = {
        bool: st.booleans(),
        int: st.integers(1 if low is None else low, 10**6 if high is None else high),
        float: st.floats(low, high, allow_nan=False, allow_infinity=False),
        str: _TEXTS,
    }
    values = strategies[kind.base]
    return st.none() | values if default_values(section)[name] is None else values


@functools.cache
def _strategies() -> dict[str, st.SearchStrategy[Any]]:
    """Strategy for each setting. Cached: building takes longer than drawing."""
    return {
        name: _values(section, name)
        for section in sections().values()
        for name in settings_of(section)
    }


def _make_optimizer_consistent(values: dict[str, Any]) -> None:
    """Changes settings that exclude the optimizer."""
    if values["optimizer"] == "adam":
        values["weight_decay"] = 0.0
    elif values["optimizer"] == "adamw":
        values["weight_decay"] = values["weight_decay"] or 0.5
    else:
        values["init_optimizer"] = False
    if values["optimizer"] == "schedule_free_adamw":
        values["ema_decay"] = None


def _make_training_consistent(values: dict[str, Any]) -> None:
    """Changes settings of training that exclude each other."""
    if values["schedule"] == "paper":
        values["learning_rate"] = None
    else:
        values["learning_rate"] = values["learning_rate"] or 0.5
        values["learning_rate_scale"] = 1.0
        values["train_steps"] += values["warmup_steps"]
    if values["init_from"] is None:
        values["init_optimizer"], values["init_skip"] = False, None
    for name in ("init_skip", "freeze"):
        if values[name] is not None:
            values[name] = re.escape(values[name]).strip()
    if values["monitor"] == "dev_bleu":
        values["dev_bleu_sentences"] += 1
    if values["records"] or not values["train_source"]:
        values["train_alignments"] = ()
    if not values["train_alignments"]:
        values["guided_alignment"] = 0.0
    elif not values["guided_alignment"]:
        values["guided_alignment"] = 0.5


def _make_growth_consistent(values: dict[str, Any]) -> None:
    """Changes the growth of the batch to one of as many phases."""
    tokens = values["tokens_per_batch"]
    phases = range(1, len(values["tokens_per_batch_steps"]) + 1)
    values["tokens_per_batch_steps"] = tuple(
        f"{3 * phase}:{tokens * phase}" for phase in phases if tokens <= 2**20
    )


@st.composite
def configs(draw: st.DrawFn) -> ExperimentConfig:
    """Settings that pass validation, with every field drawn at random."""
    values = {name: draw(kind, label=name) for name, kind in _strategies().items()}
    values["tokens_per_batch"] += values["max_length"]
    _make_growth_consistent(values)
    values["d_model"] = 2 * values["d_model"] * values["num_heads"]
    if values["encoder_neighborhood"] is not None:
        values["encoder_neighborhood"] |= 1
    if values["learned_positions"] is not None:
        values["learned_positions"] += values["max_length"] + values["first_position"]
        values["position_layout"] = "interleaved"
    if values["max_tokens_per_replica"] is not None:
        values["max_tokens_per_replica"] += values["max_length"]
    if None in (values["source_column"], values["target_column"]):
        values["source_column"] = values["target_column"] = None
    if values["mixture"] or values["subword_sampling"]:
        values["shuffle_pairs"] = None
    _make_training_consistent(values)
    _make_optimizer_consistent(values)
    if values["profile_steps"] is not None:
        values["profile_steps"] = f"3:{2 + values['num_heads']}"
    if not values["filter"]:
        values["rejected"] = None
    return unflatten(values)
