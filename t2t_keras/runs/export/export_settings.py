"""Settings of an export, checked without importing TensorFlow."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from t2t_keras.decoding.settings import SamplingSettings
from t2t_keras.errors import UserError, did_you_mean, require_extra
from t2t_keras.serving import signature
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.setting import Settings, setting, settings_of

SAVED_MODELS = ("text", "ids")
"""Formats that are SavedModels."""

FORMATS = (*SAVED_MODELS, "ctranslate2", "argos", "transformers", "marian", "keras")
"""Names of the formats, as --format has them."""

WITH_SEARCH = (*SAVED_MODELS, "transformers", "marian")
"""Formats whose files have settings of the search."""

# Extra that a format needs.
_EXTRAS = MappingProxyType(
    {
        "ctranslate2": "ctranslate2",
        "argos": "ctranslate2",
        "transformers": "convert",
        "marian": "convert",
    }
)

# Words that replace a list of signatures to warm up.
ALL, NONE = "all", "none"

# Signatures of each format, without the optional ones.
_TEXT_SIGNATURES = (
    signature.TRANSLATE,
    signature.NBEST,
    signature.TRANSLATE_WITH_OPTIONS,
    signature.SCORE_TARGET,
    signature.ATTENTION,
    signature.TRANSLATE_IDS,
)
_IDS_SIGNATURES = (signature.TRANSLATE, signature.TRANSLATE_IDS, signature.DETOKENIZE)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LICENSE = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")


@dataclasses.dataclass(frozen=True)
class ExportSettings(Settings):
    """Settings of an export; None stands for the model's own value.

    Attributes:
        decoding: Settings of the beam search.
        sample: Settings of signature sample, a `Sampling`, or None without it.

    Raises:
        UserError: If the name has other characters, a number is too small, batch sizes
            are not ascending, there is no such precision, or not with XLA, or no
            signature to warm up is named.
    """

    decoding: DecodingConfig
    xla: bool = setting(
        False,
        "Whether XLA compiles the search of the text format, for servers "
        "started with --xla_cpu_compilation_enabled or "
        "--xla_gpu_compilation_enabled. Other servers refuse such an export.",
    )
    precision: str | None = setting(
        None,
        "Precision of weights and computation. int8, for servers on x86 CPUs with "
        "VNNI, is that of matrix products and embeddings. Default: that of the run, "
        "or float32 for a run in float16.",
        choices=("float32", "bfloat16", "int8"),
    )
    n_best: int | None = setting(
        None,
        "Number of translations of each text in the `nbest` signature. Default: "
        "--beam_size.",
        low=1,
    )
    max_source_length: int | None = setting(
        None,
        "Maximum length of a source in tokens, including EOS; the rest is cut. "
        "Default: that of t2t_keras.translate.",
        low=2,
    )
    max_characters: int | None = setting(
        None,
        "Maximum length of a source in code points after normalization; the rest is "
        "cut. Default: enough for any source of --max_source_length tokens.",
        low=1,
    )
    max_beam_size: int | None = setting(
        None,
        "Maximum beam size of a request to the `translate_with_options` signature. "
        "Default: 8, or --beam_size if that is larger.",
        low=1,
    )
    max_attention_length: int = setting(
        64,
        "Maximum length of source and target in the `attention` signature in tokens, "
        "including EOS; the rest is cut.",
        low=2,
    )
    batch_sizes: tuple[int, ...] = setting(
        (),
        "Batch sizes that a server pads to and that warm-up requests have, ascending, "
        "comma-separated. Default: 1,2,4,8,16,32, or 1,8,32 with --xla, which compiles "
        "a program for each.",
    )
    model_name: str = setting(
        "translate",
        "Name of the model in requests to a server, in lower-case letters, digits and "
        "hyphens.",
    )
    sample: SamplingSettings | None = None
    prefix: bool = setting(
        False,
        "Whether the text format has signature translate_with_prefix, which takes the "
        "beginnings of translations.",
    )
    terms: bool = setting(
        False,
        "Whether the text format has signature nbest_with_terms, which takes terms "
        "that translations must have, for the glossaries of clients and of the "
        "translation API.",
    )
    warm_up: tuple[str, ...] = setting(
        (signature.TRANSLATE,),
        "Signatures that a server calls while it loads a version, comma-separated; or "
        "all, or none. Each lengthens the load by seconds; every other one pays for it "
        "at its first call.",
    )

    def check(self) -> None:
        if not _NAME.fullmatch(self.model_name):
            raise UserError(
                "--model_name must be lower-case letters, digits and hyphens, as "
                f"Kubernetes requires of names. Received: {self.model_name!r}"
            )
        sizes = self.batch_sizes
        if list(sizes) != sorted(set(sizes)) or min(sizes, default=1) < 1:
            raise UserError(
                "--batch_sizes must be ascending numbers from 1, for example 1,8,32. "
                f"Received: {','.join(map(str, sizes))}"
            )
        if self.xla and self.precision == "int8":
            raise UserError(
                "XLA has no products for --precision=int8. Leave --xla out, or choose "
                "another precision."
            )
        default = (1, 8, 32) if self.xla else (1, 2, 4, 8, 16, 32)
        object.__setattr__(self, "batch_sizes", sizes or default)
        object.__setattr__(self, "warm_up", _names_of_warm_up(self.warm_up))

    @classmethod
    def from_options(
        cls, decoding: DecodingConfig, options: Mapping[str, Any]
    ) -> "ExportSettings":
        """Returns the settings with options of an export and of its search, by name.

        Args:
            decoding: Settings of the search, which the options override.
            options: Fields of this class and of `DecodingConfig`.

        Raises:
            UserError: If there is no such option, or it has no such value.
        """
        own = settings_of(cls).keys() | {"sample"}
        of_search = settings_of(DecodingConfig).keys()
        names = sorted(own | of_search)
        for name in options:
            if name not in names:
                raise UserError(
                    f"There is no option {name!r} of an export."
                    f"{did_you_mean(name, names)} ExportSettings lists them."
                )
        search = {name: options[name] for name in options.keys() & of_search}
        others = {name: options[name] for name in options.keys() & own}
        return cls(decoding.override(**search), **others)

    def check_formats(self, formats: Sequence[str]) -> None:
        """Raises `UserError` if SavedModels lack a signature to be warmed up."""
        for each in SAVED_MODELS:
            if each in formats:
                select_warm_up(self.warm_up, self.signatures(each), each)

    def signatures(self, export_format: str) -> tuple[str, ...]:
        """Returns the names of the signatures of an export."""
        if export_format == "ids":
            return _IDS_SIGNATURES
        optional = {
            signature.SAMPLE: self.sample is not None,
            signature.TRANSLATE_WITH_PREFIX: self.prefix,
            signature.NBEST_WITH_TERMS: self.terms,
        }
        return (
            *_TEXT_SIGNATURES,
            *(name for name, has_it in optional.items() if has_it),
        )


def check_packages(export_format: str) -> None:
    """Raises `MissingPackage` if a format needs an extra that is not installed."""
    if extra := _EXTRAS.get(export_format):
        require_extra(f"--format={export_format}", extra)


def check_license(name: str) -> None:
    """Raises `UserError` unless a license is written as cards of Hugging Face do."""
    if not _LICENSE.fullmatch(name):
        raise UserError(
            "The license must be the identifier of a license in lower-case letters, "
            "digits, periods and hyphens, for example mit, apache-2.0, cc-by-4.0, or "
            f"other. Received: {name!r}"
        )


def check_one_model(
    export_format: str, ensemble_with: object, shortlist: object
) -> None:
    """Raises `UserError` if a format has no place for an ensemble or a shortlist."""
    if export_format in SAVED_MODELS:
        return
    for name, is_given in (("ensemble_with", ensemble_with), ("shortlist", shortlist)):
        if is_given:
            raise UserError(
                f"--{name} is for SavedModels: models of other formats are one "
                "Transformer, with its whole vocabulary. Leave it out, or choose "
                f"--format=text or ids. Received: --format={export_format}"
            )


def _names_of_warm_up(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the values of --warm_up, each once."""
    stripped = tuple(dict.fromkeys(name.strip() for name in names))
    words = {ALL, NONE} & {*stripped}
    if not stripped or "" in stripped or (words and len(stripped) > 1):
        raise UserError(
            "--warm_up must be names of signatures, for example serving_default,nbest, "
            f"or one of the words {ALL} and {NONE}. Received: {','.join(names)!r}"
        )
    return stripped


def select_warm_up(
    warm_up: Sequence[str], existing: Sequence[str], export_format: str
) -> tuple[str, ...]:
    """Returns the names of the signatures of an export that --warm_up chooses.

    Raises:
        UserError: If the export does not have one of these signatures.
    """
    if NONE in warm_up:
        return ()
    if ALL in warm_up:
        return tuple(existing)
    for name in warm_up:
        if name not in existing:
            raise UserError(
                f"--warm_up: an export with --format={export_format} has no signature "
                f"{name!r}. With these flags it has {', '.join(existing)}."
                f"{_advice(name, existing)}"
            )
    return tuple(warm_up)


def _advice(name: str, existing: Sequence[str]) -> str:
    """Returns how to have a signature that an export lacks, as a sentence."""
    flags = {
        signature.SAMPLE: "sample",
        signature.TRANSLATE_WITH_PREFIX: "prefix",
        signature.NBEST_WITH_TERMS: "terms",
    }
    if name in flags:
        return f" It needs --format=text --{flags[name]}."
    if name in (*_TEXT_SIGNATURES, *_IDS_SIGNATURES):
        return " Export one format at a time, each with its own --warm_up."
    return did_you_mean(name, existing)
