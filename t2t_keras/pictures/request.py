"""Request for pictures of attention, checked before a model is loaded."""

import dataclasses
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.settings.setting import Settings, setting

# Fields of `SentenceMaps`.
KINDS = ("encoder", "decoder", "memory")
SENTENCE_PICTURES = ("lines", "heat_maps", "page")
SUMMARY = "summary"


@dataclasses.dataclass(frozen=True)
class PictureRequest(Settings):
    """Pictures to draw of sentences, and a summary of a corpus.

    Attributes:
        model_dir: Directory of the model's run; None for an export.

    Raises:
        UserError: If a name is unknown, or two of them do not go together.
    """

    sentence: tuple[str, ...] = setting(
        (),
        "Sentence to draw; repeat the flag to put several on one page.",
        repeated=True,
    )
    translation: tuple[str, ...] = setting(
        (),
        "Translation of each --sentence. Default: the model's own.",
        repeated=True,
    )
    what: tuple[str, ...] = setting(
        (),
        "Pictures to make, comma-separated: lines, heat_maps, page, summary. "
        "Default: the first three, or the summary without --sentence. The page "
        "has all layers, heads and words to choose from; --layer, --heads and "
        "--words apply to figures only.",
        choices=(*SENTENCE_PICTURES, SUMMARY),
    )
    kind: tuple[str, ...] = setting(
        KINDS,
        "Kinds of attention, comma-separated: encoder, decoder, memory (from "
        "the decoder to the encoder's output).",
        choices=KINDS,
    )
    layer: int | None = setting(
        None,
        "Layer to draw, from 1. Default: the last one, or all layers in heat maps.",
    )
    heads: tuple[int, ...] = setting(
        (), "Heads to draw lines of, comma-separated, from 1. Default: all."
    )
    words: tuple[str, ...] = setting(
        (), "Words to draw lines from, comma-separated. Default: all."
    )
    merge_subwords: bool = setting(
        False, "Whether figures show words instead of subwords. The page shows both."
    )
    input: str | None = setting(
        None,
        "File of sentences for the summary, one a line. Default: the dev set of the "
        "run.",
        path=True,
    )
    input_translation: str | None = setting(
        None,
        "File of the translations of --input, line by line. Default: the model's own.",
        path=True,
    )
    sentences: int = setting(
        500,
        "Maximum number of sentences in the summary, from the start of the file.",
        low=1,
    )
    output: str | None = setting(
        None,
        "Folder for the files. Default: pictures below --model_dir, or in the "
        "working directory for an export.",
        path=True,
    )
    format: str = setting(
        "svg", "Format of the figures.", choices=("svg", "png", "pdf")
    )
    model_dir: str | None = None

    def check(self) -> None:
        if not self.kind:
            raise UserError(
                f"--kind must be some of {', '.join(KINDS)}, with commas between. "
                "Received none."
            )
        if set(self.pictures) - {SUMMARY} and not self.sentence:
            raise UserError(
                f"--what={','.join(self.pictures)} needs a --sentence to draw."
            )
        if len(self.translation) not in (0, len(self.sentence)):
            raise UserError(
                "Give a --translation for each --sentence, or none. Received: "
                f"{len(self.translation)} for {len(self.sentence)}"
            )

    @property
    def folder(self) -> Path:
        """Folder for the files."""
        return Path(self.output or Path(self.model_dir or "") / "pictures")

    @property
    def pictures(self) -> tuple[str, ...]:
        """The pictures to make: `what` or its default."""
        return self.what or (SENTENCE_PICTURES if self.sentence else (SUMMARY,))
