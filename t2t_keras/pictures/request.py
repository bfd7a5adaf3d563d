"""Request for pictures of attention, checked before a model is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError

# Fields of `SentenceMaps`.
KINDS = ("encoder", "decoder", "memory")
SENTENCE_PICTURES = ("lines", "heat_maps", "page")
SUMMARY = "summary"


class Choice(NamedTuple):
    """Attention to draw of a sentence.

    Attributes:
        kinds: Fields of `SentenceMaps`.
        layer: From 1; None for the last one, and for all in heat maps.
        heads: From 1; None for all.
        words: Whose lines are drawn; none for all.
        merge_subwords: Whether figures show words.
        figure_format: Image format of figures: svg, png or pdf.
    """

    kinds: Sequence[str] = KINDS
    layer: int | None = None
    heads: Sequence[int] | None = None
    words: Sequence[str] = ()
    merge_subwords: bool = False
    figure_format: str = "svg"


@dataclass(frozen=True)
class PictureRequest:
    """Pictures to draw of sentences, and a summary of a corpus.

    Attributes:
        folder: Folder for the files.
        sentences: Sentences to draw.
        translations: One for each sentence. Default: the model's own.
        what: Some of `SENTENCE_PICTURES` and `SUMMARY`. Default: all pictures of the
            sentences, or the summary where there is no sentence.
        choice: Kinds, layers, heads and words of the figures.
        input: File of sentences for the summary. Default: the dev set.
        input_translation: File of their translations. Default: the model's own.
        max_sentences: Maximum number of sentences of the summary.

    Raises:
        UserError: If a name is unknown, or two of them do not go together.
    """

    folder: Path
    sentences: Sequence[str] = ()
    translations: Sequence[str] = ()
    what: Sequence[str] | None = None
    choice: Choice = field(default_factory=Choice)
    input: str | None = None
    input_translation: str | None = None
    max_sentences: int = 500

    def __post_init__(self) -> None:
        what = self.pictures
        _check_names("what", what, (*SENTENCE_PICTURES, SUMMARY))
        _check_names("kind", self.choice.kinds, KINDS)
        if set(what) - {SUMMARY} and not self.sentences:
            raise UserError(f"--what={','.join(what)} needs a --sentence to draw.")
        if len(self.translations) not in (0, len(self.sentences)):
            raise UserError(
                "Give a --translation for each --sentence, or none. Received: "
                f"{len(self.translations)} for {len(self.sentences)}"
            )

    @property
    def pictures(self) -> Sequence[str]:
        """The pictures to make: `what` or its default."""
        if self.what is not None:
            return self.what
        return SENTENCE_PICTURES if self.sentences else (SUMMARY,)


def parse_heads(texts: Sequence[str]) -> list[int] | None:
    """Returns the numbers of --heads, None if there are none.

    Raises:
        UserError: If one is not a number.
    """
    try:
        return [int(text) for text in texts] or None
    except ValueError:
        raise UserError(
            f"--heads takes numbers with commas between. Received: {','.join(texts)}"
        ) from None


def _check_names(flag: str, given: Sequence[str], known: Sequence[str]) -> None:
    wrong = [name for name in given if name not in known]
    if wrong or not given:
        raise UserError(
            f"--{flag} takes some of {', '.join(known)}, with commas between. "
            f"Received: {','.join(given)}"
        )
