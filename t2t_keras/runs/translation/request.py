"""Number and kind of the translations of each line, checked without TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from t2t_keras.decoding.settings import SamplingSettings
from t2t_keras.errors import UserError
from t2t_keras.settings.model_options import ABOUT_HEADS
from t2t_keras.settings.setting import Settings, setting

# Number of samples that are reranked.
DEFAULT_SAMPLES = 32


@dataclasses.dataclass(frozen=True)
class TranslationRequest(Settings):
    """Number and kind of the translations of each line.

    Attributes:
        sample: A `Sampling`, or None for beam search.
        with_prefixes: Whether beginnings of translations are given.
        alignments: Whether the words of each line are aligned with those of its best
            translation.

    Raises:
        UserError: If a value is outside its range, or has no meaning.
    """

    n_best: int = setting(1, "Number of translations of each line.", low=1)
    sample: SamplingSettings | None = None
    rerank: str | None = setting(
        None,
        "Method of choosing among several translations: mbr (minimum Bayes risk), "
        "those with the highest mean chrF against all others. Default: none.",
        choices=("mbr",),
    )
    candidates: int | None = setting(
        None,
        "Number of translations that --rerank chooses from. Default: --beam_size, or "
        "32 samples.",
        low=1,
    )
    with_prefixes: bool = False
    paragraphs: bool = setting(
        False,
        "Whether lines are paragraphs, whose sentences are translated one by one. "
        "Blank lines and the spacing between sentences stay as they are.",
    )
    target_tag: str | None = setting(
        None,
        "Tag to put before each sentence, such as that of a language or domain; one "
        "symbol of the vocabulary. Default: none.",
    )
    protect: bool = setting(
        False,
        "Whether placeholders, tags, URLs and e-mail addresses of a line come back "
        "unchanged and once each: {name}, %s, {{x}}, <1>, https://example.com.",
    )
    glossary: str | None = setting(
        None,
        "File of terms that translations must have: on each line a source term, a tab "
        "and a target term. Default: none.",
        path=True,
    )
    alignments: bool = False
    alignment_heads: str | None = setting(None, ABOUT_HEADS)

    def check(self) -> None:
        if not isinstance(self.sample, SamplingSettings | None):
            raise UserError(f"--sample must be a Sampling. Received: {self.sample!r}")
        if self.paragraphs:
            self._check_paragraphs()
        if self.glossary is not None and self.sample is not None:
            raise UserError(
                "--glossary forces terms in a search, and --sample draws translations. "
                "Leave one of them out."
            )
        if self.protect and self.with_prefixes:
            raise UserError(
                "--protect may translate a line without its placeholders, to which a "
                "--prefix that has them would not belong. Leave one of them out."
            )
        if self.alignment_heads is not None:
            from t2t_keras.text.word_alignments import parse_alignment_heads

            parse_alignment_heads(self.alignment_heads)
            if not self.alignments:
                raise UserError("--alignment_heads is for --alignments. Add that.")
        if self.candidates is None:
            return
        if self.rerank is None:
            raise UserError(
                "--candidates is the number of translations that --rerank chooses "
                "from. Add --rerank=mbr, or leave it out."
            )
        if self.candidates < self.n_best:
            raise UserError(
                f"--candidates must be at least --n_best={self.n_best}. "
                f"Received: {self.candidates}"
            )

    def _check_paragraphs(self) -> None:
        if self.n_best > 1:
            raise UserError(
                "--paragraphs gives one translation of each paragraph, from the best "
                f"of each sentence. Leave --n_best out. Received: {self.n_best}"
            )
        for name, is_given, reason in (
            ("prefix", self.with_prefixes, "begins the translation of a sentence"),
            ("sample", self.sample is not None, "is drawn for a line by its number"),
            ("alignments", self.alignments, "counts the words of a sentence"),
        ):
            if is_given:
                raise UserError(
                    f"--{name} {reason}, and --paragraphs splits lines into sentences. "
                    "Leave one of them out."
                )

    def check_search(self, search: Mapping[str, Any]) -> None:
        """Raises `UserError` if settings are given that sampling lacks."""
        if self.sample is not None and search.get("beam_size") is not None:
            raise UserError(
                "--beam_size is not for --sample: it has no beam. Leave it out; "
                "--n_best is the number of samples."
            )

    def hypotheses(self, beam_size: int) -> int:
        """Returns the number of translations to search for, or to draw."""
        if self.rerank is None:
            return self.n_best
        default = beam_size if self.sample is None else DEFAULT_SAMPLES
        return self.candidates or max(default, self.n_best)
