"""Model of another toolkit, as the readers of its format return it.

Shapes: V vocabulary, D model width.
"""

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID

# Logit of a row that the source model does not have. Its probability, e^-100 of the
# others', vanishes in float32; a larger number would distort label smoothing.
NO_LOGIT = -100.0
PAD_PIECE, EOS_PIECE, UNK_PIECE = "<pad>", "</s>", "<unk>"


def read_yaml(path: Path) -> dict[str, Any]:
    """Returns the settings in a YAML file.

    Raises:
        UserError: If it cannot be read, or has something else.
    """
    try:
        content = parse_yaml(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as YAML: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} must have settings, `name: value` in each line.")
    return content


def parse_yaml(text: bytes) -> Any:
    """Returns the content of a YAML text.

    Raises:
        ValueError: If it is damaged.
    """
    import yaml

    try:
        return yaml.safe_load(text.decode("utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def without_dropout(steps: Sequence[Any]) -> tuple[str, ...]:
    """Returns steps around layers, a letter each, that a translation computes."""
    return tuple(str(each or "").replace("d", "") for each in steps)


def new_piece(name: str, pieces: Sequence[str]) -> str:
    """Returns a piece that there is not yet: the name in brackets."""
    piece = f"<{name}>"
    while piece in pieces:
        piece = f"<{piece}>"
    return piece


ReadArray = Callable[[], np.ndarray]
"""Reads an array from a file. Only one array at a time is in memory."""


class ReorderedRows:
    """Rows of an array, or some of them, in another order.

    A part is copied when it is asked for.

    Args:
        array: [N, ...], the array, or rows of one.
        ids: Index of each row of the result; None for an added one.
        added: Value of added rows.
    """

    def __init__(
        self,
        array: "np.ndarray | ReorderedRows",
        ids: Sequence[int | None],
        added: float,
    ):
        self._array = array
        self._added = added
        self._ids = np.array([-1 if i is None else i for i in ids])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return (len(self._ids), *self._array.shape[1:])

    def __getitem__(self, part: slice | np.ndarray) -> np.ndarray:
        ids = self._ids[part]
        rows = self._array[np.maximum(ids, 0)]
        rows[ids < 0] = self._added
        return rows


def read_settings(path: Path, expected: str) -> dict[str, Any]:
    """Returns the names and values of a JSON file.

    Args:
        path: The file.
        expected: What the input must be, for the message if there is no such file.

    Raises:
        UserError: If it cannot be read, or has something else.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(
            f"Cannot read {path}: {error.strerror}. --input must be {expected}."
        ) from error
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}.") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} must have names and values. Received: {content!r:.60}")
    return content


ReadWeight = Callable[[], np.ndarray | ReorderedRows]
"""Reads a weight of our model."""


def transposed(read: ReadArray) -> ReadArray:
    """Returns the reader of a transposed array."""
    return lambda: read().T


def check_allowed(
    path: Path,
    settings: Mapping[str, Any],
    allowed: Mapping[str, tuple[Sequence[Any], str]],
) -> None:
    """Raises `UserError` if a setting has a value of which no model is possible here.

    `allowed` has the possible values of each, the default first, and what a model with
    another value is.
    """
    for name, (values, about) in allowed.items():
        value = settings.get(name, values[0])
        if value not in values:
            raise UserError(
                f"{path} cannot be imported: it has {about}. Expected {name} "
                f"{' or '.join(map(str, values))}. Received: {value}"
            )


def check_rows(path: Path, pieces: Sequence[str], rows: int) -> None:
    """Raises `UserError` if a vocabulary is not of an embedding with so many rows."""
    if len(pieces) != rows:
        raise UserError(
            f"{path} has {len(pieces)} pieces, and the model has {rows} rows for "
            "them. It is the vocabulary of another model."
        )


def read_pieces(path: Path) -> list[str]:
    """Returns the lines of a vocabulary.

    Raises:
        UserError: If it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    except OSError as error:
        raise UserError(
            f"Cannot read the vocabulary {path}: {error.strerror}."
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(f"The vocabulary {path} is not UTF-8: {error}.") from error


def embedding_options(weights: Mapping[str, ReadWeight]) -> dict[str, Any]:
    """Returns the settings of embeddings and output that follow from the weights."""
    return {
        "output_bias": "embedding/output_bias" in weights,
        "tie_output": "embedding/output_matrix" not in weights,
        "share_embeddings": "source_embedding/embeddings" not in weights,
    }


@dataclasses.dataclass(frozen=True)
class ImportedModel:
    """A model in terms of this project.

    Attributes:
        model: Settings of the model.
        decoding: Settings of the search.
        vocabulary: Its vocabulary.
        weights: For each weight of `Transformer`, by its path below the model, a
            function that reads it.
        original_ids: Id in the source of each id of the target side; None for an added
            row.
        source_original_ids: The same of the source side, if it has other pieces.
        files: Files that it was read from.
        settings: Settings of the source, as JSON values.
        languages: Codes of source and target language, if the source names them.
        warnings: What the model directory does differently from the source.
    """

    model: ModelConfig
    decoding: DecodingConfig
    vocabulary: PieceVocabulary
    weights: Mapping[str, ReadWeight]
    original_ids: Sequence[int | None]
    files: Sequence[Path]
    settings: Mapping[str, Any]
    source_original_ids: Sequence[int | None] | None = None
    languages: tuple[str | None, str | None] = (None, None)
    warnings: Sequence[str] = ()

    def config(self, languages: tuple[str, str]) -> ExperimentConfig:
        """Returns the settings of the model directory, with both languages' codes."""
        config = ExperimentConfig(model=self.model, decoding=self.decoding)
        return dataclasses.replace(
            config,
            data=dataclasses.replace(
                config.data,
                source_language=languages[0],
                target_language=languages[1],
                vocabulary_size=self.vocabulary.size,
            ),
        )


@dataclasses.dataclass(frozen=True)
class IdMap:
    """Rows of a source vocabulary in the order of ours: padding, EOS, unknown, others.

    Attributes:
        pieces: Our pieces.
        original_ids: The source's id of each; None for an added row.
    """

    pieces: Sequence[str]
    original_ids: Sequence[int | None]

    @classmethod
    def from_pieces(
        cls, pieces: Sequence[str], *, pad: int | None, eos: int, unk: int | None
    ) -> "IdMap":
        """Returns the map of a vocabulary.

        Args:
            pieces: The source's pieces, by its ids.
            pad: Its id of padding; None if it has none.
            eos: Its id of the end of a sentence.
            unk: Its id of unknown tokens; None if it has none.

        Raises:
            UserError: If two pieces are equal.
        """
        special = {PAD_ID: pad, EOS_ID: eos, UNK_ID: unk}
        others = [i for i in range(len(pieces)) if i not in special.values()]
        ours = [PAD_PIECE, EOS_PIECE, UNK_PIECE, *(pieces[i] for i in others)]
        if len(set(ours)) < len(ours):
            twice = next(piece for i, piece in enumerate(ours) if piece in ours[:i])
            raise UserError(f"The vocabulary has {twice!r} twice, which is ambiguous.")
        return cls(ours, [special[i] for i in sorted(special)] + others)

    def rows(
        self, read: ReadArray, *, added: float = 0.0
    ) -> Callable[[], ReorderedRows]:
        """Returns the reader of an array [V, ...] with its rows in our order.

        A row that two of our ids have is there twice.

        Args:
            read: Reads the source's array.
            added: Value of added rows.
        """

        def read_rows() -> ReorderedRows:
            array = read()
            count = len(set(self.original_ids) - {None})
            if len(array) != count:
                raise UserError(
                    f"A weight of the model has {len(array)} rows, and the vocabulary "
                    f"{count} pieces. They do not belong together."
                )
            return ReorderedRows(array, self.original_ids, added)

        return read_rows

    def with_copy(self, piece: str, own_id: int) -> "IdMap":
        """Returns the map with a new piece last, which has the row of an id of ours."""
        copied = self.original_ids[own_id]
        return IdMap([*self.pieces, piece], [*self.original_ids, copied])

    def output_bias(self, read: ReadArray | None) -> dict[str, ReadWeight]:
        """Returns the logits' bias by its name, so that added rows are never likely.

        It is empty if there is none, and no row was added.

        Args:
            read: Reads the source's bias [V]; None without one.
        """
        if read is None:
            if None not in self.original_ids:
                return {}
            size = 1 + max(i for i in self.original_ids if i is not None)
            read = functools.partial(np.zeros, size, np.float32)
        return {"embedding/output_bias": self.rows(read, added=NO_LOGIT)}
