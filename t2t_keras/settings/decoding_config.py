"""Settings of the beam search (section 6.1)."""

import dataclasses
from typing import Any

from t2t_keras.settings.setting import Settings, default_values, setting, settings_of


@dataclasses.dataclass(frozen=True)
class DecodingConfig(Settings):
    """Decoding: settings of the beam search (section 6.1)."""

    beam_size: int = setting(
        4,
        "Beam size: hypotheses kept at each step of the search, at most 10,000; 1 is "
        "greedy.",
        low=1,
        high=10_000,
        resume=True,
        paper=True,
        recorded=True,
    )
    alpha: float = setting(
        0.6,
        "Strength of the length penalty, at least 0.",
        low=0,
        resume=True,
        paper=True,
        recorded=True,
    )
    extra_length: int = setting(
        50,
        "Maximum number of tokens that a translation has beyond its source's, at most "
        "100,000.",
        low=0,
        high=100_000,
        resume=True,
        paper=True,
        recorded=True,
    )
    length_penalty: str = setting(
        "gnmt",
        "Divisor of the log probability of a translation of n tokens: gnmt, "
        "((5 + n) / 6)^alpha as in the paper; power, n^alpha; none, 1.",
        choices=("gnmt", "power", "none"),
        resume=True,
        paper=True,
    )
    suppress_unknown: bool = setting(
        False,
        "Whether the unknown token is forbidden in translations.",
        resume=True,
        paper=True,
    )
    min_length: int = setting(
        0,
        "Minimum number of tokens of a translation, not counting the end of the "
        "sentence.",
        low=0,
        resume=True,
        paper=True,
    )
    no_repeat_ngram: int = setting(
        0,
        "n, to forbid translations in which the same n tokens in a row occur twice, at "
        "most 100; 0 to allow all.",
        low=0,
        high=100,
        resume=True,
        paper=True,
    )
    renormalize: bool = setting(
        False,
        "Whether the probabilities of the tokens that may follow add up to 1: the "
        "search ignores those of padding and of forbidden tokens.",
        resume=True,
        paper=True,
    )

    def as_dict(self) -> dict[str, Any]:
        """Returns the settings by name, the paper's three and all that are not default.

        This is how scores and exports record them. A setting added later does not
        change what is recorded without it.
        """
        defaults = default_values(type(self))
        return {
            name: getattr(self, name)
            for name, each in settings_of(self).items()
            if each.recorded or getattr(self, name) != defaults[name]
        }

    def describe(self) -> str:
        """Returns beam size, alpha, and options that are not default, as text."""
        options = self.as_dict()
        beam_size, alpha = options.pop("beam_size"), options.pop("alpha")
        del options["extra_length"]
        parts = [f"{name} {value}" for name, value in options.items()]
        return ", ".join([f"beam {beam_size}, alpha {alpha:g}", *parts])
