"""Vocabulary of an imported model, without the pieces that a corpus does not have.

Most of the 128,000 or 256,000 pieces of a multilingual model belong to languages that a
user does not translate, and their rows of the embedding are half of its weights.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.lines import open_input
from t2t_keras.interop.imported_model import (
    NO_LOGIT,
    ImportedModel,
    ReadWeight,
    ReorderedRows,
)
from t2t_keras.text.t2t_subwords import T2TSubwordTokenizer

# Weights with a row for each id.
_TARGET_ROWS = (
    "embedding/embeddings",
    "embedding/output_matrix",
    "embedding/output_bias",
)
_SOURCE_ROWS = ("source_embedding/embeddings",)


def trim_vocabulary(
    imported: ImportedModel,
    paths: Sequence[Path],
    on_progress: Callable[[int], object] = lambda _: None,
) -> ImportedModel:
    """Returns a model with the pieces of some text alone.

    Special pieces and those of languages stay, and so do the characters of the text one
    by one, of which other words are spelled. A source of such pieces has the same ids,
    but for their numbers, and the kept logits are the same; only the probability that
    the others had is shared out.

    Args:
        imported: The model.
        paths: Files of text in its languages, of either side, a sentence a line.
        on_progress: Called with the number of lines read since the last call.

    Raises:
        UserError: If a file cannot be read or is empty, or the vocabulary has subwords
            of Tensor2Tensor, which spell every word.
    """
    vocabulary = imported.vocabulary
    if vocabulary.tokenizer_kind == T2TSubwordTokenizer.kind:
        raise UserError(
            "--keep_vocabulary is for pieces of SentencePiece, or words, and this "
            "vocabulary has subwords of Tensor2Tensor. Leave it out."
        )
    sides = vocabulary.source, vocabulary
    found: list[set[int]] = [set(), set()]
    for line in _read_lines(paths):
        for side, ids in zip(sides, found, strict=True):
            ids.update(side.encode(line))
        on_progress(1)
    if min(map(len, found)) <= 1:
        raise UserError(
            f"{', '.join(map(str, paths))} (--keep_vocabulary) has no text. Give text "
            "in the languages to translate."
        )
    start = imported.model.decoder_start
    kept = [
        side.ids_to_keep(ids, () if start == "zero" else (start,))
        for side, ids in zip(sides, found, strict=True)
    ]
    if imported.source_original_ids is None:
        kept = [sorted({*kept[0], *kept[1]})] * 2
    source_ids, target_ids = kept
    source_originals = imported.source_original_ids
    return dataclasses.replace(
        imported,
        vocabulary=vocabulary.keep(target_ids, source_ids),
        weights={
            name: _keep_rows(read, source_ids if name in _SOURCE_ROWS else target_ids)
            if name in (*_TARGET_ROWS, *_SOURCE_ROWS)
            else read
            for name, read in imported.weights.items()
        },
        original_ids=[imported.original_ids[i] for i in target_ids],
        source_original_ids=None
        if source_originals is None
        else [source_originals[i] for i in source_ids],
        files=[*imported.files, *paths],
    )


def _read_lines(paths: Iterable[Path]) -> Iterable[bytes]:
    for path in paths:
        with open_input(str(path), "keep_vocabulary") as lines:
            yield from lines


def _keep_rows(read: ReadWeight, ids: Sequence[int]) -> ReadWeight:
    return lambda: ReorderedRows(read(), ids, NO_LOGIT)
