"""Settings of an export, checked without importing TensorFlow."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_keras.errors import UserError, check_list, did_you_mean, require_extra
from t2t_keras.serving import signature
from t2t_keras.settings.config import DecodingConfig

SAVED_MODELS = ("text", "ids")
"""Formats that are SavedModels."""

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


@dataclasses.dataclass(frozen=True)
class ExportSettings:
    """Settings of an export; None stands for the model's own value.

    Attributes:
        decoding: Settings of the beam search.
        xla: Whether XLA compiles the search.
        precision: float32 or bfloat16. Default: that of the run, or float32 for a run
            in float16.
        n_best: Translations of each text that the `nbest` signature returns. Default:
            the beam size.
        max_source_length: Maximum tokens of a source, including EOS.
        max_characters: Maximum code points of a source.
        max_beam_size: Maximum beam size of a request. Default: 8, or the beam size if
            that is larger.
        max_attention_length: Maximum tokens of either side in an attention map.
        batch_sizes: Batch sizes that a server pads to, ascending. Default: powers of
            two up to 32; with XLA fewer, since each costs a compilation.
        sample: Settings of signature sample, a `Sampling`, or None without it.
        prefix: Whether there is a signature that takes beginnings of translations.
        model_name: Model name in requests, in lower-case letters, digits and hyphens.
        warm_up: Names of the signatures that a server calls while it loads the version;
            ("all",) or ("none",).

    Raises:
        UserError: If the name has other characters, a number is too small, batch sizes
            are not ascending, there is no such precision, or no signature to warm up is
            named.
    """

    decoding: DecodingConfig
    xla: bool = False
    precision: str | None = None
    n_best: int | None = None
    max_source_length: int | None = None
    max_characters: int | None = None
    max_beam_size: int | None = None
    max_attention_length: int = 64
    batch_sizes: tuple[int, ...] = ()
    model_name: str = "translate"
    sample: Any = None
    prefix: bool = False
    warm_up: tuple[str, ...] = (signature.TRANSLATE,)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.model_name):
            raise UserError(
                "--model_name must be lower-case letters, digits and hyphens, as "
                f"Kubernetes requires of names. Received: {self.model_name!r}"
            )
        if self.precision not in (None, "float32", "bfloat16"):
            raise UserError(
                "--precision of an export must be float32 or bfloat16. "
                f"Received: {self.precision}"
            )
        for name, low in (
            ("n_best", 1),
            ("max_source_length", 2),
            ("max_characters", 1),
            ("max_beam_size", 1),
            ("max_attention_length", 2),
        ):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < low):
                raise UserError(
                    f"--{name} must be a whole number, at least {low}. "
                    f"Received: {value!r}"
                )
        check_list("Batch sizes", self.batch_sizes)
        sizes = parse_batch_sizes([str(size) for size in self.batch_sizes])
        default = (1, 8, 32) if self.xla else (1, 2, 4, 8, 16, 32)
        object.__setattr__(self, "batch_sizes", sizes or default)
        object.__setattr__(self, "warm_up", parse_warm_up(self.warm_up))

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
        own = {field.name for field in dataclasses.fields(cls)} - {"decoding"}
        of_search = {field.name for field in dataclasses.fields(DecodingConfig)}
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

    def signatures(self, export_format: str) -> tuple[str, ...]:
        """Returns the names of the signatures of an export in a format."""
        return signature_names(
            export_format, sample=self.sample is not None, prefix=self.prefix
        )


def check_flags(
    formats: Sequence[str],
    batch_sizes: Sequence[str] | None,
    warm_up: Sequence[str],
    *,
    sample: bool,
    prefix: bool,
) -> None:
    """Raises `UserError` if flags of an export have values that no export can have.

    Args:
        formats: Values of --format. Those that are no SavedModels are not checked.
        batch_sizes: Values of --batch_sizes.
        warm_up: Values of --warm_up.
        sample: Whether the text format has signature sample.
        prefix: Whether the text format has signature translate_with_prefix.
    """
    parse_batch_sizes(batch_sizes or ())
    names = parse_warm_up(warm_up)
    for each in SAVED_MODELS:
        if each in formats:
            existing = signature_names(each, sample=sample, prefix=prefix)
            select_warm_up(names, existing, each)


def check_packages(export_format: str) -> None:
    """Raises `MissingPackage` if a format needs an extra that is not installed."""
    extra = {"ctranslate2": "ctranslate2", "transformers": "convert"}.get(export_format)
    if extra:
        require_extra(f"--format={export_format}", extra)


def check_one_model(
    export_format: str, ensemble_with: object, shortlist: object
) -> None:
    """Raises `UserError` if a format is of one model with its whole vocabulary.

    Args:
        export_format: Name of the format.
        ensemble_with: Whether it is asked to have the models of other runs, too.
        shortlist: Whether it is asked to have a shortlist.
    """
    if export_format in SAVED_MODELS:
        return
    for name, is_given in (("ensemble_with", ensemble_with), ("shortlist", shortlist)):
        if is_given:
            raise UserError(
                f"--{name} is for SavedModels: models of other formats are one "
                "Transformer, with its whole vocabulary. Leave it out, or choose "
                f"--format=text or ids. Received: --format={export_format}"
            )


def parse_batch_sizes(texts: Sequence[str]) -> tuple[int, ...]:
    """Returns the values of --batch_sizes as numbers.

    Raises:
        UserError: If they are not ascending numbers from 1.
    """
    sizes = tuple(int(text) if text.isdecimal() else 0 for text in texts)
    if list(sizes) != sorted(set(sizes)) or 0 in sizes:
        raise UserError(
            "--batch_sizes must be ascending numbers from 1, for example 1,8,32. "
            f"Received: {','.join(texts)}"
        )
    return sizes


def signature_names(
    export_format: str, *, sample: bool, prefix: bool
) -> tuple[str, ...]:
    """Returns the names of the signatures of an export.

    Args:
        export_format: "text" or "ids".
        sample: Whether the text format has signature sample.
        prefix: Whether the text format has signature translate_with_prefix.
    """
    if export_format == "ids":
        return _IDS_SIGNATURES
    optional = {signature.SAMPLE: sample, signature.TRANSLATE_WITH_PREFIX: prefix}
    names = [name for name, has_it in optional.items() if has_it]
    return (*_TEXT_SIGNATURES, *names)


def parse_warm_up(names: Sequence[str] | str) -> tuple[str, ...]:
    """Returns the values of --warm_up, each once.

    Args:
        names: The values, or a text of them that is comma-separated, as in the flag.

    Raises:
        UserError: If there are none, or "all" or "none" beside others.
    """
    names = names.split(",") if isinstance(names, str) else names
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
    """Returns the names of the signatures that a server calls while it loads a version.

    Args:
        warm_up: Values of --warm_up.
        existing: Names of the signatures of the export.
        export_format: Format of the export, for the message.

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
    flags = {signature.SAMPLE: "sample", signature.TRANSLATE_WITH_PREFIX: "prefix"}
    if name in flags:
        return f" It needs --format=text --{flags[name]}."
    if name in (*_TEXT_SIGNATURES, *_IDS_SIGNATURES):
        return " Export one format at a time, each with its own --warm_up."
    return did_you_mean(name, existing)
