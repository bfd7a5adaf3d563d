"""File of an imported model's vocabulary, a zip archive.

  vocabulary.json   the tokenizers' kinds and other settings
  target.json       the pieces of the target side, by id
  source.json       those of the source side, if they are others
  target.spm        SentencePiece model of the target side, if there is one
  source.spm        that of the source side, if it is another

Format 2 has what a multilingual model needs: pieces of languages, their pair, and
pieces without text.
"""

import dataclasses
import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.text.language_tags import LanguageTags
from t2t_keras.text.t2t_subwords import T2TSubwordTokenizer
from t2t_keras.text.tokenizers import (
    SentencePieceTokenizer,
    Tokenizer,
    WordTokenizer,
)
from t2t_keras.text.vocabulary import UNK_ID

# A release that knows no languages would leave out their pieces, so it must refuse a
# file that has some.
_PLAIN_FORMAT, _FORMAT = 1, 2
_SETTINGS = "vocabulary.json"


@dataclasses.dataclass(frozen=True)
class PieceArchive:
    """What the file of a vocabulary has.

    Attributes:
        target: Pieces of targets.
        target_tokenizer: Their tokenizer.
        source: Pieces of sources.
        source_tokenizer: Their tokenizer; None if both sides are one vocabulary.
        skips_unknown: As in `PieceVocabulary`.
        without_text: As in `PieceVocabulary`.
        languages: As in `PieceVocabulary`.
    """

    target: Sequence[str]
    target_tokenizer: Tokenizer
    source: Sequence[str]
    source_tokenizer: Tokenizer | None
    skips_unknown: bool = False
    without_text: Sequence[str] = ()
    languages: LanguageTags | None = None

    def to_bytes(self) -> bytes:
        """Returns the content of the file; equal archives give equal bytes."""
        files = {"target.json": _to_json(self.target)}
        kinds = {"target": self.target_tokenizer.kind}
        for suffix, content in self.target_tokenizer.to_files().items():
            files[f"target.{suffix}"] = content
        if self.source_tokenizer is not None:
            kinds["source"] = self.source_tokenizer.kind
            if self.source != self.target:
                files["source.json"] = _to_json(self.source)
            if self.source_tokenizer is not self.target_tokenizer:
                for suffix, content in self.source_tokenizer.to_files().items():
                    files[f"source.{suffix}"] = content
        settings: dict[str, Any] = {"format": _PLAIN_FORMAT, "tokenizers": kinds}
        if self.skips_unknown:
            settings["skips_unknown"] = True
        if self.without_text or self.languages is not None:
            settings["format"] = _FORMAT
            settings["without_text"] = self.without_text
        if self.languages is not None:
            settings["languages"] = dataclasses.asdict(self.languages)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            files = {_SETTINGS: json.dumps(settings).encode(), **files}
            for name, content in files.items():
                # The time of a `ZipInfo` is that of 1980, whenever it is made.
                entry = zipfile.ZipInfo(name)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, content)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> "PieceArchive":
        """Returns what `to_bytes` returned; messages call it `name`.

        Raises:
            UserError: If the bytes are damaged, or of a newer release.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                files = {entry: archive.read(entry) for entry in archive.namelist()}
            settings = json.loads(files[_SETTINGS])
            version, kinds = settings["format"], dict(settings["tokenizers"])
            sides = {
                side: json.loads(files[f"{side}.json"])
                for side in ("target", "source")
                if f"{side}.json" in files
            }
            target = sides["target"]
            languages = settings.get("languages")
            if languages is not None:
                languages = LanguageTags(**languages)
        except (
            zipfile.BadZipFile,
            zlib.error,
            NotImplementedError,
            KeyError,
            ValueError,
            TypeError,
            EOFError,
        ) as error:
            raise UserError(
                f"{name} is not a whole vocabulary of an imported model: {error}. Copy "
                "it again, or convert the model again."
            ) from error
        if version not in (_PLAIN_FORMAT, _FORMAT):
            raise UserError(
                f"{name} has a vocabulary of format {version}, and this "
                f"release reads formats up to {_FORMAT}. Use a newer release."
            )
        tokenizers = _open_tokenizers(kinds, files, sides, name)
        return cls(
            target,
            tokenizers["target"],
            sides.get("source", target),
            tokenizers.get("source"),
            bool(settings.get("skips_unknown")),
            settings.get("without_text", ()),
            languages,
        )


def is_piece_vocabulary(content: bytes) -> bool:
    """Returns whether a file's content is that of a `PieceVocabulary`."""
    return content.startswith(b"PK\x03\x04")


def _to_json(pieces: Sequence[str]) -> bytes:
    return json.dumps(pieces, ensure_ascii=False).encode()


def _open_tokenizers(
    kinds: Mapping[str, str],
    files: Mapping[str, bytes],
    sides: Mapping[str, Sequence[str]],
    name: str,
) -> dict[str, Tokenizer]:
    """Returns the tokenizer of each side; one object if both have the same."""
    tokenizers: dict[str, Tokenizer] = {}
    for side, kind in kinds.items():
        if kind == WordTokenizer.kind:
            tokenizers[side] = WordTokenizer()
        elif kind == T2TSubwordTokenizer.kind and side in sides:
            tokenizers[side] = T2TSubwordTokenizer(sides[side][UNK_ID + 1 :])
        elif f"{side}.spm" in files:
            about = f"{side}.spm in {name}"
            tokenizers[side] = SentencePieceTokenizer(files[f"{side}.spm"], about)
        else:
            tokenizers[side] = tokenizers["target"]
    return tokenizers
