"""Vocabulary of an imported model: a list of pieces, and a tokenizer for each side.

Shapes: N number of texts, L length.
"""

import copy
import functools
import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from t2t_keras.errors import UserError
from t2t_keras.text.language_tags import LanguageTags
from t2t_keras.text.piece_archive import PieceArchive
from t2t_keras.text.tokenizers import SPACE, Tokenizer
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID, Vocabulary
from t2t_keras.typing import Tensor

if TYPE_CHECKING:
    from t2t_keras.text.piece_table import PieceTable

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
    ">>deu<<", if the list has it. Of a multilingual model, every text but an empty one
    begins with the piece of its language.

    Args:
        pieces: Piece of each id, each once; padding, end of sentence and unknown
            first.
        tokenizer: Splits text of this side, and joins its pieces.
        source: Vocabulary of sources. Default: this one.
        skips_unknown: Whether the unknown token has no text, as in transformers.
        without_text: Other pieces that have none, those of languages among them.
        languages: Languages of a multilingual model, and the pair of its texts.

    Raises:
        UserError: If there are fewer than four pieces, one occurs twice, or a language
            has a piece that is not in the list.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        tokenizer: Tokenizer,
        source: "PieceVocabulary | None" = None,
        skips_unknown: bool = False,
        without_text: Collection[str] = (),
        languages: LanguageTags | None = None,
    ):
        self._pieces = tuple(pieces)
        self._tokenizer = tokenizer
        self._source = source
        self._skips_unknown = skips_unknown
        self._without_text = tuple(without_text)
        self._languages: LanguageTags | None = None
        self._tag: str | None = None
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
        if languages is not None:
            self._set_languages(languages)

    def _set_languages(self, languages: LanguageTags) -> None:
        missing = [each for each in languages.pieces.values() if each not in self._ids]
        if missing:
            raise UserError(f"The vocabulary has no piece {missing[0]} of a language.")
        self._languages = languages
        self._tag = languages.pieces[languages.target]
        # Both sides have all languages, so what one of them has learned is shared.
        self._source = copy.copy(self if self._source is None else self._source)
        self._source._source = self._source._bytes = None
        # By itself it is a vocabulary of texts in the source language.
        self._source._languages = languages.with_pair(None, languages.source)
        self._source._tag = languages.pieces[languages.source]
        self._bytes = None

    def __copy__(self) -> "PieceVocabulary":
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self):
        # Tokenizers and tables in the graph belong to this process.
        return type(self).from_bytes, (self.to_bytes(),)

    @classmethod
    def from_bytes(cls, content: bytes, name: str = "These bytes") -> "PieceVocabulary":
        """Returns the vocabulary that `to_bytes` returned; messages call it `name`.

        Raises:
            UserError: If they are damaged, or of a newer release.
        """
        archive = PieceArchive.from_bytes(content, name)
        source = None
        if archive.source_tokenizer is not None:
            source = cls(archive.source, archive.source_tokenizer)
        target = cls(
            archive.target,
            archive.target_tokenizer,
            source,
            skips_unknown=archive.skips_unknown,
            without_text=archive.without_text,
            languages=archive.languages,
        )
        target._bytes = content
        return target

    @property
    def languages(self) -> LanguageTags | None:
        """Languages of a multilingual model, and the pair of its texts; else None."""
        return self._languages

    @property
    def tag_id(self) -> int | None:
        """Id of the piece of the language that begins texts; None without languages."""
        return None if self._tag is None else self._ids[self._tag]

    def with_languages(
        self, source: str | None, target: str | None
    ) -> "PieceVocabulary":
        """Returns the vocabulary of texts of another pair of languages.

        It shares tokenizers and tables. Without languages it is this vocabulary.

        Args:
            source: Code of the language of sources. Default: that of this vocabulary.
            target: The same of targets.

        Raises:
            UserError: If the model has no such language.
        """
        if self._languages is None:
            return self
        languages = self._languages.with_pair(source, target)
        if languages == self._languages:
            return self
        other = copy.copy(self)
        other._set_languages(languages)
        return other

    def ids_to_keep(
        self, ids: Collection[int], pieces: Collection[str] = ()
    ) -> list[int]:
        """Returns ids for `keep`, ascending, of which all text of some ids is spelled.

        Args:
            ids: Ids to keep. The characters of their pieces are kept one by one, and
                so are special pieces, bytes and languages.
            pieces: Further pieces.
        """
        used = self.pieces(ids)
        wanted = {*used, *pieces, *"".join(used), SPACE}
        special = range(UNK_ID + 1)
        return [
            token_id
            for token_id, piece in enumerate(self._pieces)
            if token_id in special
            or piece in wanted
            or piece in self._tags
            or _BYTE.fullmatch(piece)
        ]

    def keep(
        self, target_ids: Sequence[int], source_ids: Sequence[int]
    ) -> "PieceVocabulary":
        """Returns the vocabulary without other pieces, the rest in the same order.

        Text of the kept pieces is split in the same way as before. Other text is split
        into kept pieces as far as possible.

        Args:
            target_ids: Ids to keep, special ones first.
            source_ids: The same of sources.
        """
        pieces = self.pieces(target_ids), self.source.pieces(source_ids)
        tokenizer = self._tokenizer.restrict(pieces[0])
        source_tokenizer = tokenizer
        if self.source._tokenizer is not self._tokenizer or pieces[0] != pieces[1]:
            source_tokenizer = self.source._tokenizer.restrict(pieces[1])
        kept = {*pieces[0]}
        target = PieceVocabulary(
            pieces[0],
            tokenizer,
            skips_unknown=self._skips_unknown,
            without_text=[each for each in self._without_text if each in kept],
        )
        if self._source is not None:
            target._source = PieceVocabulary(pieces[1], source_tokenizer)
        if self._languages is not None:
            target._set_languages(self._languages)
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
        source = self._source
        archive = PieceArchive(
            self._pieces,
            self._tokenizer,
            self.source._pieces,
            None if source is None else source._tokenizer,
            self._skips_unknown,
            self._without_text,
            self._languages,
        )
        return archive.to_bytes()

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
        ids += [self._ids.get(piece, UNK_ID) for piece in self._tokenizer.split(rest)]
        if ids and self._tag is not None:
            ids.insert(0, self._ids[self._tag])
        return [*ids, EOS_ID]

    def _take_tag(self, text: str) -> tuple[list[int], str]:
        """Returns the id of the tag that a text begins with, and the rest of it."""
        match = _PYTHON_TAG.match(text) if self._has_tags else None
        if match is None or match[1] not in self._ids:
            return [], text
        return [self._ids[match[1]]], text[match.end() :]

    def _spell(self, ids: list[int]) -> str:
        ids = [token_id for token_id in ids if token_id not in self._silent_ids]
        text = self._tokenizer.join([self._pieces[i] for i in ids])
        return _PYTHON_LINE_BREAKS.sub(" ", text)

    @functools.cached_property
    def _silent_ids(self) -> frozenset[int]:
        """Ids that have no text."""
        unknown = {UNK_ID} if self._skips_unknown else set()
        return frozenset(unknown | {self._ids[piece] for piece in self._without_text})

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id."""
        return [self._pieces[token_id] for token_id in map(int, ids)]

    def marked_pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id with "▁" for a space; "" for a language."""
        pieces = self.pieces(ids)
        marked = self._tokenizer.mark(pieces)
        tags = self._tags
        return [
            "" if piece in tags else mark
            for piece, mark in zip(pieces, marked, strict=True)
        ]

    @functools.cached_property
    def _tags(self) -> frozenset[str]:
        """Pieces of languages."""
        if self._languages is None:
            return frozenset()
        return frozenset(self._languages.pieces.values())

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
        if self._languages is not None:
            resources.append(self._tag_table)
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

    def tags_in_graph(self, codes: Tensor) -> Tensor:
        """Returns the ids of the pieces of languages; PAD_ID where there is none."""
        import tensorflow as tf

        return tf.where(codes == "", self.tag_id, self._tag_table.lookup(codes))

    @functools.cached_property
    def _tag_table(self) -> Any:
        import tensorflow as tf

        languages = {} if self._languages is None else self._languages.pieces
        with tf.init_scope():
            content = tf.lookup.KeyValueTensorInitializer(
                list(languages),
                [self._ids[piece] for piece in languages.values()],
                tf.string,
                tf.int32,
            )
            return tf.lookup.StaticHashTable(content, PAD_ID)

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
        for token_id in (PAD_ID, EOS_ID, *self._silent_ids):
            texts[token_id] = ""
        byte_values = [
            int(piece[3:-1], 16) if _BYTE.fullmatch(piece) else -1
            for piece in self._pieces
        ]
        return PieceTable(
            ["" if piece in self._tags else piece for piece in self._pieces],
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
