"""A translator as one SavedModel: text in, translations and scores out.

The root is a plain `tf.Module` that holds raw variables, the tokenizer and traced
functions - no Keras object. A Keras variable that is tracked is saved twice, and a
server restores the copy that nobody reads. Nothing is compiled by XLA: a stock
server refuses such nodes.

Shapes: B batch, S source length, L output length.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import tensorflow as tf

from t2t_keras import signature
from t2t_keras.decoding.beam_search import BeamSearchResult
from t2t_keras.errors import UserError
from t2t_keras.quiet import quiet_start_up
from t2t_keras.text.vocabulary import EOS_ID, SubwordVocabulary
from t2t_keras.typing import Tensor

Search = Callable[[Tensor], BeamSearchResult]


class TranslatorModule(tf.Module):
    """What is saved: variables, tokenizer, and a function for each signature.

    Args:
        search: Source ids [B, S] int32 to the best translation of each, N = 1.
        weights: Every variable that `search` reads.
        vocabulary: Of both languages.
        max_source_length: Tokens, EOS counted, after which a source is cut.
    """

    def __init__(
        self,
        search: Search,
        weights: Sequence[tf.Variable],
        vocabulary: SubwordVocabulary,
        max_source_length: int,
    ):
        super().__init__()
        self.weights = list(weights)
        self.tokenizer = vocabulary.tokenizer
        self._search = search
        self._vocabulary = vocabulary
        self._max_source_length = max_source_length
        text = tf.TensorSpec([None], tf.string, name=signature.TEXT)
        self.translate = tf.function(self._translate, input_signature=[text])
        ids = tf.TensorSpec([None, None], tf.int32, name=signature.INPUT_IDS)
        self.translate_ids = tf.function(self._translate_ids, input_signature=[ids])

    def _translate(self, text: Tensor) -> Mapping[str, Tensor]:
        tokens = self._vocabulary.encode_in_graph(text)
        found = self._translate_ids(self._source_ids(tokens))
        translation_B = self._vocabulary.decode_in_graph(found[signature.OUTPUT_IDS])
        # A text without a token is not worth a guess: empty stays empty.
        empty_B = tokens.row_lengths() <= 1
        return {
            signature.TRANSLATION: tf.where(empty_B, "", translation_B),
            signature.SCORE: tf.where(empty_B, 0.0, found[signature.SCORE]),
        }

    def _source_ids(self, tokens: Tensor) -> Tensor:
        """Returns ragged tokens as [B, S] int32, cut to the limit; S is 1 at least."""
        words = tokens[:, :-1][:, : self._max_source_length - 1]
        ends = tf.fill([tokens.nrows(out_type=tf.int32), 1], EOS_ID)
        ids_BS = tf.concat([words, tf.RaggedTensor.from_tensor(ends)], 1).to_tensor()
        # An empty batch has no longest row, and a search needs one position.
        missing = tf.maximum(1 - tf.shape(ids_BS)[1], 0)
        return tf.pad(ids_BS, [[0, 0], [0, missing]])

    def _translate_ids(self, input_ids: Tensor) -> Mapping[str, Tensor]:
        found = self._search(input_ids)
        return {
            signature.OUTPUT_IDS: found.tokens[:, 0],
            signature.OUTPUT_LENGTH: found.lengths[:, 0],
            signature.SCORE: found.scores[:, 0],
        }


def save_translator(module: TranslatorModule, base: str | os.PathLike[str]) -> Path:
    """Writes a new version below `base`, whole or not at all.

    It is loaded and asked for a translation before it gets its name, so a server
    that watches `base` never sees one that does not work.

    Args:
        module: What to save.
        base: Directory of the versions, as TensorFlow Serving expects it.

    Returns:
        The version's directory: `base` with the next integer.

    Raises:
        UserError: If what was written cannot be used.
        OSError: If it cannot be written.
    """
    base = Path(base)
    base.mkdir(parents=True, exist_ok=True)
    versions = [int(path.name) for path in base.iterdir() if path.name.isdigit()]
    final = base / str(max(versions, default=0) + 1)
    temporary = base / f".{final.name}.{os.getpid()}.tmp"
    try:
        tf.saved_model.save(
            module,
            str(temporary),
            signatures={
                signature.TRANSLATE: module.translate,
                signature.TRANSLATE_IDS: module.translate_ids,
            },
        )
        _check(temporary)
        temporary.rename(final)
    except tf.errors.OpError as error:
        raise OSError(f"{final} could not be written: {error.message}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return final


def _check(directory: Path) -> None:
    """Raises `UserError` unless a v1 session, which servers use, gets an answer.

    `tf.saved_model.load` would not do: it binds variables by object, and so hides
    a variable that a session would find uninitialized.
    """
    graph = tf.Graph()
    with (
        quiet_start_up(),
        graph.as_default(),
        tf.compat.v1.Session(graph=graph) as session,
    ):
        meta_graph = tf.compat.v1.saved_model.loader.load(
            session, ["serve"], str(directory)
        )
        contract = meta_graph.signature_def[signature.TRANSLATE]
        outputs = {name: info.name for name, info in contract.outputs.items()}
        feed = {contract.inputs[signature.TEXT].name: [b"", b"x"]}
        try:
            answer = session.run(outputs, feed)
        except tf.errors.OpError as error:
            raise UserError(
                f"The export does not work in a server's session: {error.message}"
            ) from error
    if [len(answer[name]) for name in sorted(outputs)] != [2] * len(outputs):
        raise UserError(f"The export gave an answer of another size: {answer}")
