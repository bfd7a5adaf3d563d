"""Vocabulary of an imported model: a list of pieces, and a tokenizer for each side.

Its file is a zip archive:

  vocabulary.json   the tokenizers' kinds and other settings
  target.json       the pieces of the target side, by id
  source.json       those of the source side, if they are others
  target.spm        SentencePiece model of the target side, if there is one
  source.spm        that of the source side, if it is another

Shapes: N number of texts, L length.
"""

import functools
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from t2t_keras.errors import UserError
from t2t_keras.text.t2t_subwords import T2TSubwordTokenizer
from t2t_keras.text.tokenizers import (
    SPACE,
    SentencePieceTokenizer,
    Tokenizer,
    WordTokenizer,
)
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID, Vocabulary
from t2t_keras.typing import Tensor

if TYPE_CHECKING:
    from t2t_keras.text.piece_table import PieceTable

_FORMAT = 1
_SETTINGS = "vocabulary.json"
# Before a source, the target language of a multilingual model: ">>deu<< A text."
_TAG = "[ \\t]*(>>[^<> \\t]+<<)[ \\t]*"
_PYTHON_TAG = re.compile(_TAG)
# Characters at which programs break lines. A translation must stay on one line.
_LINE_BREAKS = "[\\n\\x0b\\x0c\\r\\x1c-\\x1e\\x{85}\\x{2028}\\x{2029}]"
_PYTHON_LINE_BREAKS = re.compile("[\n\x0b\x0c\r\x1c-\x1e\x85\u2028\u2029]")
_BYTE = re.compile("<0x[0-9A-F]{2}>")


class PieceVocabulary(Vocabulary):
    """List of pieces, which a tokenizer splits text into.

    A piece that is not in the list has the id of the unknown token, as in Marian. Text
    is not normalized but by the tokenizer. A source may begin with a tag such as
    ">>deu<<", if the list has it.

    Args:
        pieces: Piece of each id, each once; padding, end of sentence and unknown
            first.
        tokenizer: Splits text of this side, and joins its pieces.
        source: Vocabulary of sources. Default: this one.
        skips_unknown: Whether the unknown token has no text, as in transformers.

    Raises:
        UserError: If there are fewer than four pieces, or one occurs twice.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        tokenizer: Tokenizer,
        source: "PieceVocabulary | None" = None,
        skips_unknown: bool = False,
    ):
        self._pieces = tuple(pieces)
        self._tokenizer = tokenizer
        self._source = source
        self._skips_unknown = skips_unknown
        if len(self._pieces) <= UNK_ID + 1:
            raise UserError(
                "A vocabulary must have padding, end of sentence, unknown and at least "
                f"one piece more. Received: {len(self._pieces)} pieces"
            )
        # No text may spell padding or the end of the sentence.
        self._ids = {piece: i for i, piece in enumerate(self._pieces) if i > EOS_ID}
        if len(set(self._pieces)) < len(self._pieces):
            twice = next(p for i, p in enumerate(self._pieces) if p in self._pieces[:i])
            raise UserError(f"The vocabulary has the piece {twice!r} twice.")
        self._has_tags = any(_PYTHON_TAG.fullmatch(piece) for piece in self._ids)
        self._bytes: bytes | None = None

    def __reduce__(self):
        # Tokenizers and tables in the graph belong to this process.
        return type(self).from_bytes, (self.to_bytes(),)

    @classmethod
    def from_bytes(cls, content: bytes, name: str = "These bytes") -> "PieceVocabulary":
        """Returns the vocabulary that `to_bytes` returned; messages call it `name`.

        Raises:
            UserError: If they are damaged, or of a newer release.
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
            pieces = sides["target"]
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
        if version != _FORMAT:
            raise UserError(
                f"{name} has a vocabulary of format {version}, and this "
                f"release reads format {_FORMAT}. Use a newer release."
            )
        tokenizers = _open_tokenizers(kinds, files, sides, name)
        skips_unknown = bool(settings.get("skips_unknown"))
        target = cls(pieces, tokenizers["target"], skips_unknown=skips_unknown)
        if "source" in tokenizers:
            target._source = cls(sides.get("source", pieces), tokenizers["source"])
        target._bytes = content
        return target

    @property
    def tokenizer_kind(self) -> str:
        """Kind of the tokenizer of this side."""
        return self._tokenizer.kind

    def tokenizer_files(self) -> dict[str, bytes]:
        """Returns the SentencePiece models of both sides as files; {} without them."""
        return {
            f"{side}.{suffix}": content
            for side, each in (("source", self.source), ("target", self))
            for suffix, content in each._tokenizer.to_files().items()
        }

    def to_bytes(self) -> bytes:
        """Returns the content of its file; equal vocabularies give equal bytes."""
        if self._bytes is None:
            self._bytes = self._write()
        return self._bytes

    def _write(self) -> bytes:
        files: dict[str, bytes] = {}
        kinds: dict[str, str] = {}
        sides: dict[str, PieceVocabulary] = {"target": self}
        if self._source is not None:
            sides["source"] = self._source
        for side, each in sides.items():
            kinds[side] = each._tokenizer.kind
            if side == "target" or each._pieces != self._pieces:
                pieces = json.dumps(each._pieces, ensure_ascii=False)
                files[f"{side}.json"] = pieces.encode()
            if side == "target" or each._tokenizer is not self._tokenizer:
                for suffix, content in each._tokenizer.to_files().items():
                    files[f"{side}.{suffix}"] = content
        settings: dict[str, Any] = {"format": _FORMAT, "tokenizers": kinds}
        if self._skips_unknown:
            settings["skips_unknown"] = True
        files = {_SETTINGS: json.dumps(settings).encode(), **files}
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                # The time of a `ZipInfo` is that of 1980, whenever it is made.
                entry = zipfile.ZipInfo(name)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, content)
        return buffer.getvalue()

    @property
    def source(self) -> "PieceVocabulary":
        """The vocabulary of sources."""
        return self if self._source is None else self._source

    @property
    def size(self) -> int:
        """The number of ids."""
        return len(self._pieces)

    def normalize(self, text: str | bytes) -> str:
        """Returns the text as well-formed Unicode, with "\ufffd" for other bytes."""
        if isinstance(text, str):
            text = text.encode("utf-8", errors="surrogatepass")
        return text.decode("utf-8", errors="replace")

    def normalize_in_graph(self, texts: Tensor) -> Tensor:
        """Returns what `normalize` does, for a tensor of strings."""
        import tensorflow as tf

        return tf.strings.unicode_transcode(
            texts, "UTF-8", "UTF-8", errors="replace", replacement_char=0xFFFD
        )

    def encode(self, text: str | bytes) -> list[int]:
        """Returns the ids of the text, EOS_ID last; UNK_ID for an unknown piece."""
        ids, rest = self._take_tag(self.normalize(text))
        pieces = self._tokenizer.split(rest)
        return [*ids, *(self._ids.get(piece, UNK_ID) for piece in pieces), EOS_ID]

    def _take_tag(self, text: str) -> tuple[list[int], str]:
        """Returns the id of the tag that a text begins with, and the rest of it."""
        match = _PYTHON_TAG.match(text) if self._has_tags else None
        if match is None or match[1] not in self._ids:
            return [], text
        return [self._ids[match[1]]], text[match.end() :]

    def _spell(self, ids: list[int]) -> str:
        if self._skips_unknown:
            ids = [token_id for token_id in ids if token_id != UNK_ID]
        text = self._tokenizer.join([self._pieces[i] for i in ids])
        return _PYTHON_LINE_BREAKS.sub(" ", text)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id."""
        return [self._pieces[token_id] for token_id in map(int, ids)]

    def marked_pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id with "▁" for a space."""
        return self._tokenizer.mark(self.pieces(ids))

    def split_piece(self, piece: str) -> list[int]:
        """Returns the ids into which a piece of another vocabulary is split."""
        if piece in self._ids:
            return [self._ids[piece]]
        pieces = self._tokenizer.split(piece.replace(SPACE, " "))
        return [self._ids.get(each, UNK_ID) for each in pieces] or [UNK_ID]

    @property
    def graph_resources(self) -> list[Any]:
        """The table of ids and what the tokenizer uses; also those of `source`."""
        resources = [self._id_table, *self._tokenizer.graph_resources]
        if self._source is not None:
            resources += self._source.graph_resources
        return resources

    @functools.cached_property
    def _id_table(self) -> Any:
        import tensorflow as tf

        # A table made inside a traced function would die with its graph.
        with tf.init_scope():
            content = tf.lookup.KeyValueTensorInitializer(
                list(self._ids), list(self._ids.values()), tf.string, tf.int32
            )
            return tf.lookup.StaticHashTable(content, UNK_ID)

    def _tokenize_in_graph(self, texts: Tensor) -> Tensor:
        import tensorflow as tf

        if not self._has_tags:
            return self._look_up(self._tokenizer.split_in_graph(texts))
        # RE2's "." does not match a line break unless told so.
        tags = tf.strings.regex_replace(texts, f"(?s)^{_TAG}.*$", "\\1")
        is_tagged = tf.strings.regex_full_match(texts, f"(?s){_TAG}.*")
        tag_ids = self._id_table.lookup(tf.where(is_tagged, tags, ""))
        is_tagged &= tag_ids != UNK_ID
        rest = tf.strings.regex_replace(texts, f"^{_TAG}", "", replace_global=False)
        rest = tf.where(is_tagged, rest, texts)
        prefix = tf.ragged.boolean_mask(tag_ids[:, None], is_tagged[:, None])
        return tf.concat(
            [prefix, self._look_up(self._tokenizer.split_in_graph(rest))], axis=1
        )

    def _look_up(self, pieces: Tensor) -> Tensor:
        """Returns ids [N, (length)] int32 of pieces [N, (length)] string."""
        return pieces.with_flat_values(self._id_table.lookup(pieces.flat_values))

    def _build_piece_table(self) -> "PieceTable":
        from t2t_keras.text.piece_table import PieceTable

        texts = self._tokenizer.piece_texts(self._pieces)
        texts[PAD_ID] = texts[EOS_ID] = ""
        if self._skips_unknown:
            texts[UNK_ID] = ""
        byte_values = [
            int(piece[3:-1], 16) if _BYTE.fullmatch(piece) else -1
            for piece in self._pieces
        ]
        return PieceTable(
            self._pieces,
            [
                bytes([byte]) if byte >= 0 else text.encode()
                for text, byte in zip(texts, byte_values, strict=True)
            ],
            byte_values,
            finish=self._finish_in_graph,
        )

    def _finish_in_graph(self, texts: Tensor) -> Tensor:
        """Returns the texts of joined pieces [N] string, each on one line."""
        import tensorflow as tf

        finished = self._tokenizer.finish_in_graph(texts)
        return tf.strings.regex_replace(finished, _LINE_BREAKS, " ")


def is_piece_vocabulary(content: bytes) -> bool:
    """Returns whether a file's content is that of a `PieceVocabulary`."""
    return content.startswith(b"PK\x03\x04")


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
