"""Models and the language pairs that they translate."""

import collections
import itertools
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.server.translation_api.language_codes import canonical_code, find_code
from t2t_keras.text.languages import base_language, language_name

logger = logging.getLogger(__name__)

# Its name beside an export, as t2t_keras.serving.export.model_card writes it. That
# module needs TensorFlow.
_CARD = "model_card.json"
_EXPECTED = (
    "Expected models with their source and target languages, separated by commas: "
    "translate:en:de,other:de:en"
)


@dataclass(frozen=True)
class LanguagePair:
    """Model that translates from one language to another.

    Attributes:
        model: Name of the model on its server.
        source: Canonical code of the source language.
        target: That of the target language.
        codes: Codes of both that a multilingual model is asked for; None for a model of
            one pair.
    """

    model: str
    source: str
    target: str
    codes: tuple[str, str] | None = None


def parse_models(
    models: str, base_paths: Mapping[str, str] | None = None
) -> tuple[LanguagePair, ...]:
    """Returns the language pairs that `models` lists.

    Args:
        models: `MODEL:SOURCE:TARGET,...`; `MODEL` alone has the languages of its
            export. A multilingual model has several, with "+" between:
            `MODEL:de+en:de+en+fr`, or one with "+" after it. "" lists all models of
            `base_paths`.
        base_paths: Directory of the versions of each model whose files are on this
            machine.

    Raises:
        UserError: If an item is malformed, a pair has two models, or the languages of
            a model are not known.
    """
    paths = base_paths or {}
    items = [item.strip() for item in models.split(",")] if models else list(paths)
    if not items:
        raise UserError(f"No model to translate with. {_EXPECTED}")
    pairs = []
    for item in items:
        name, *languages = item.split(":")
        sides = [list(filter(None, side.split("+"))) for side in languages]
        if not languages:
            sides = _languages_of_export(name, paths.get(name))
        if not name or len(sides) != 2 or not all(sides):
            raise UserError(f"{_EXPECTED}. Received: {item!r}")
        known = _read_languages(paths[name]).get("codes") if name in paths else None
        if known and languages:
            sides = [[_own_code(code, known, item) for code in side] for side in sides]
        if known or "+" in item:
            pairs += _pairs_of_model(name, *sides)
        else:
            (source,), (target,) = sides
            pair = canonical_code(source), canonical_code(target)
            pairs.append(LanguagePair(name, *pair))
    return tuple(pairs)


def _own_code(code: str, known: Sequence[str], item: str) -> str:
    """Returns the code that a multilingual model has for a language."""
    if code in known:
        return code
    own = {served: each for each, served in _served_codes(_servable(known)).items()}
    found = find_code(code, tuple(own))
    if found is None:
        raise UserError(
            f"--language_pairs={item}: the model does not have the language {code}. "
            "Its model_card.json lists those that it has."
        )
    return own[found]


def _pairs_of_model(
    name: str, sources: Sequence[str], targets: Sequence[str]
) -> Iterator[LanguagePair]:
    """Yields the pairs of a multilingual model; none from a language to itself."""
    served = _served_codes(list(dict.fromkeys([*sources, *targets])))
    for source, target in itertools.product(sources, targets):
        if source != target:
            yield LanguagePair(name, served[source], served[target], (source, target))


def _served_codes(codes: Sequence[str]) -> dict[str, str]:
    """Returns the code by which each language of a model is served.

    That is the usual one, as de for deu_Latn, unless the model has several forms.
    """
    canonical = {code: canonical_code(code) for code in codes}
    bases = {code: base_language(code) for code in codes}
    counts = collections.Counter(bases.values())
    served = {}
    for code, base in bases.items():
        _, _, variety = canonical[code].partition("-")
        is_one = counts[base] == 1 or not variety
        served[code] = base if is_one else f"{base}-{variety}"
    return served


def _languages_of_export(name: str, base_path: str | None) -> list[list[str]]:
    """Returns source and target languages of a model's newest version."""
    advice = f"Give its languages, as in {name or 'translate'}:en:de."
    if base_path is None:
        raise UserError(
            f"The languages of model {name!r} are not known: its files are not on this "
            f"machine. {advice}"
        )
    path = _newest_card(base_path)
    if path is None:
        raise UserError(f"No version in {base_path} has a {_CARD}. {advice}")
    languages = _read_languages(base_path)
    if codes := languages.get("codes"):
        return [_servable(codes)] * 2
    try:
        return [[canonical_code(languages[side])] for side in ("source", "target")]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} does not say which languages it translates: {error}. {advice}"
        ) from error


def _newest_card(base_path: str) -> Path | None:
    """Returns the card of the newest version that has one."""
    versions = [path.parent for path in Path(base_path).glob(f"*/{_CARD}")]
    numbers = [int(each.name) for each in versions if each.name.isdecimal()]
    return Path(base_path) / str(max(numbers)) / _CARD if numbers else None


def _read_languages(base_path: str) -> dict[str, Any]:
    """Returns the languages of a model's newest card; {} if it has none."""
    path = _newest_card(base_path)
    try:
        found = json.loads(path.read_text("utf-8"))["languages"] if path else {}
    except (ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _servable(codes: Sequence[str]) -> list[str]:
    """Returns codes without those that are no languages, of which the log tells."""
    kept, others = [], []
    for code in codes:
        try:
            canonical_code(code)
        except UserError:
            others.append(code)
        else:
            kept.append(code)
    if others:
        logger.warning("not served, as they are no languages: %s", ", ".join(others))
    return kept


class Languages:
    """Languages that are served, and the model of each pair.

    Args:
        pairs: Pairs in order of preference; at least one.

    Raises:
        UserError: If there is no pair, or two models of one pair have the same. Where
            one of the models is multilingual, the first has the pair.

    Attributes:
        pairs: The pairs, each once.
        codes: All languages, sources first.
        sources: Languages that are translated from.
    """

    def __init__(self, pairs: tuple[LanguagePair, ...]):
        if not pairs:
            raise UserError(f"No model to translate with. {_EXPECTED}")
        self._by_languages: dict[tuple[str, str], LanguagePair] = {}
        for pair in pairs:
            other = self.pair(pair.source, pair.target)
            if other is None:
                self._by_languages[pair.source, pair.target] = pair
            elif pair.codes is None and other.codes is None:
                raise UserError(
                    f"Models {other.model!r} and {pair.model!r} both translate from "
                    f"{pair.source} to {pair.target}. Name one of them."
                )
        self.pairs = tuple(self._by_languages.values())
        self.sources = tuple(dict.fromkeys(pair.source for pair in pairs))
        self.codes = tuple(
            dict.fromkeys([*self.sources, *(pair.target for pair in pairs)])
        )
        self._sources_of: dict[str, list[str]] = {code: [] for code in self.codes}
        self._targets_of: dict[str, list[str]] = {code: [] for code in self.codes}
        for source, target in self._by_languages:
            self._sources_of[target].append(source)
            self._targets_of[source].append(target)

    def find(self, code: str) -> str | None:
        """Returns the served language that a client's code means, or None."""
        return find_code(code, self.codes)

    def pair(self, source: str, target: str) -> LanguagePair | None:
        """Returns the pair of two served languages, or None."""
        return self._by_languages.get((source, target))

    def candidates(self, target: str) -> tuple[str, ...]:
        """Returns the languages that a text to be translated may be in.

        One candidate is the target itself: such a text is returned as it is.
        """
        sources = self._sources_of.get(target)
        return tuple(dict.fromkeys([*sources, target])) if sources else self.codes

    def describe(self) -> list[dict[str, object]]:
        """Returns the list of languages in LibreTranslate's form.

        Each language is among its own targets, as there.
        """
        return [
            {
                "code": code,
                "name": language_name(code),
                "targets": sorted({code, *self._targets_of[code]}),
            }
            for code in self.codes
        ]
