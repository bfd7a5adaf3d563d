"""Attention maps of sentences, from a trained model or from an export.

Shapes: B batch, S source length, T target length, R layers of a stack, H heads.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError, require_package
from t2t_keras.model.sentence_maps import SentenceMaps, sentence_maps
from t2t_keras.parsing.linearization import linearize
from t2t_keras.parsing.trees import read_trees
from t2t_keras.runs import models, translators
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.tasks import TREES
from t2t_keras.runs.translation.map_maker import MapMaker
from t2t_keras.serving import signature
from t2t_keras.serving.export.model_card import CARD
from t2t_keras.settings.decoding_config import DecodingConfig


class Attention(NamedTuple):
    """Functions of a model that translate and return attention maps.

    A parser's translations are its symbols here, not trees.

    Attributes:
        source: Function from raw text to a source of the others: a parser's words with
            blanks between them. An export splits by itself.
        translate: Function from sources to translations.
        maps: Function from sources and their translations to the maps of each, in
            order, and whether the end of one was cut because it is too long.
        neighborhood: The model's `encoder_neighborhood`; None for an export, which
            does not have it.
    """

    source: Callable[[str], str]
    translate: Callable[[Sequence[str]], list[str]]
    maps: Callable[[Sequence[str], Sequence[str]], Iterator[tuple[SentenceMaps, bool]]]
    neighborhood: int | None


class AttentionModel(NamedTuple):
    """A model to visualize.

    Attributes:
        attention: Its attention.
        name: What to call it in a caption.
        model_dir: Its model directory; None for an export.
    """

    attention: Attention
    name: str
    model_dir: ModelDir | None


def open_attention_model(
    model_dir: str | None = None,
    export_dir: str | None = None,
    *,
    checkpoint: str = "averaged",
    **search: Any,
) -> AttentionModel:
    """Returns the model of a run or of an export.

    Args:
        model_dir: Model directory of the run.
        export_dir: Folder of an export, or of its versions, instead.
        checkpoint: Which weights of the run.
        **search: Settings of the search for translations, fields of `DecodingConfig`
            by name. Default: the run's own.

    Raises:
        UserError: If there is no such model.
    """
    if export_dir:
        directory = Path(export_dir)
        return AttentionModel(attention_of_export(directory), directory.name, None)
    run = ModelDir(model_dir or "")
    trained = models.load_trained(run, checkpoint)
    folder = trained.checkpoint
    name = f"{run.path.resolve().name}, {folder.parent.name}/{folder.name}"
    decoding = trained.config.decoding.override(**search)
    return AttentionModel(attention_of_run(trained, decoding), name, run)


def attention_of_run(
    trained: models.TrainedModel, decoding: DecodingConfig
) -> Attention:
    """Returns the attention of a trained model, from its model directory."""
    adapter = trained.task.text_adapter(splits_words=True)
    model, vocabulary = trained.model, trained.vocabulary

    def source(text: str) -> str:
        return vocabulary.source.normalize(adapter.source(text))

    def translate(texts: Sequence[str]) -> list[str]:
        translator = translators.build_translator(model, vocabulary, decoding)
        return [line.text for line in translator.translate(texts)]

    neighborhood = model.sizes["encoder_neighborhood"]
    return Attention(source, translate, MapMaker(trained), neighborhood)


def attention_of_export(directory: Path) -> Attention:
    """Returns the attention of an exported model, by its `attention` signature.

    A parser's export returns trees, so the symbols of these are drawn. They are the
    model's own where these describe a tree over the sentence's words; otherwise they
    are those of the repaired tree (ADR 0021).

    Args:
        directory: A version, or the base directory of several, for the newest.

    Raises:
        UserError: If there is no export there with the signature.
    """
    directory = _version(directory)
    with require_package("An export of text", "tensorflow-text"):
        import tensorflow_text  # noqa: F401 - registers the tokenizer's ops

    try:
        loaded = tf.saved_model.load(str(directory))
        is_parser = _target_language(directory) == TREES
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise UserError(f"{directory} cannot be loaded: {error}") from error
    signatures: Any = loaded.signatures
    if signature.ATTENTION not in signatures:
        raise UserError(
            f"{directory} has no signature {signature.ATTENTION!r}, only "
            f"{', '.join(sorted(signatures))}. Give the --export_dir of an export of "
            "text, such as MODEL_DIR/export, or --model_dir."
        )
    ask, translate_all = (
        signatures[name] for name in (signature.ATTENTION, signature.TRANSLATE)
    )

    def translate(texts: Sequence[str]) -> list[str]:
        outputs = translate_all(**{signature.TEXT: tf.constant(list(texts))})
        answers = [text.decode() for text in outputs[signature.TRANSLATION].numpy()]
        return [_symbols(tree) for tree in answers] if is_parser else answers

    def maps(
        sources: Sequence[str], targets: Sequence[str]
    ) -> Iterator[tuple[SentenceMaps, bool]]:
        for source, target in zip(sources, targets, strict=True):
            sides = {signature.SOURCE: source, signature.TARGET: target}
            asked = {name: tf.constant([text]) for name, text in sides.items()}
            outputs = {name: part.numpy()[0] for name, part in ask(**asked).items()}
            yield _read_answer(outputs), bool(outputs[signature.TRUNCATED])

    return Attention(str, translate, maps, None)


def _target_language(version: Path) -> str | None:
    """Returns the target language in an export's card; None without a card."""
    card = version / CARD
    if not card.is_file():
        return None
    return json.loads(card.read_text(encoding="utf-8"))["languages"]["target"]


def _symbols(tree: str) -> str:
    """Returns the symbols of a bracketed tree; "" for an empty sentence."""
    return " ".join(map(linearize, read_trees([tree], "the export's answer")))


def _read_answer(outputs: dict[str, np.ndarray]) -> SentenceMaps:
    """Returns the maps in the outputs of the signature for one sentence."""
    source, target = (
        [piece.decode() for piece in outputs[tokens][: outputs[length]]]
        for tokens, length in (
            (signature.SOURCE_TOKENS, signature.SOURCE_LENGTH),
            (signature.TARGET_TOKENS, signature.TARGET_LENGTH),
        )
    )
    names = "ENCODER_ATTENTION", "DECODER_ATTENTION", "MEMORY_ATTENTION"
    return sentence_maps(
        source, target, [outputs[getattr(signature, n)] for n in names]
    )


def _version(directory: Path) -> Path:
    """Returns the newest version below a base directory, or the version itself."""
    if (directory / "saved_model.pb").is_file():
        return directory
    versions = [
        path
        for path in (directory.iterdir() if directory.is_dir() else ())
        if path.name.isdecimal() and (path / "saved_model.pb").is_file()
    ]
    if not versions:
        raise UserError(
            f"There is no SavedModel in {directory}, nor a version of one below it. "
            "t2t_keras.export makes one."
        )
    return max(versions, key=lambda path: int(path.name))
