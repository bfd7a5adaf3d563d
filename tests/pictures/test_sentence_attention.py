"""Attention maps of sentences, by a random model and by its export."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.errors import UserError
from t2t_keras.model.attention_maps import attention_maps
from t2t_keras.pictures import sentence_attention
from t2t_keras.pictures.head_statistics import HeadSums
from t2t_keras.runs import translators
from t2t_keras.runs.export import saved_model
from t2t_keras.runs.translation import map_maker
from t2t_keras.runs.translators import MAX_SOURCE_LENGTH
from t2t_keras.serving import signature
from t2t_keras.serving.export.limits import ServingLimits
from t2t_keras.serving.export.translator_module import TranslatorModule
from tests.runs.random_model import (
    CONFIG,
    as_trained_model,
    random_lines,
    random_model,
    random_vocabulary,
)

SOURCES = (*random_lines(5, seed=8), "", "grünes 😀 <b>")
TARGETS = ("", *random_lines(6, seed=9))
TOLERANCE = 1e-5
SHOWN = 40
LIMITS = ServingLimits(
    source_length=60,
    characters=900,
    target_length=60,
    n_best=1,
    beam_size=4,
    attention_length=SHOWN,
)


@pytest.fixture(scope="module")
def trained():
    vocabulary = random_vocabulary()
    return as_trained_model(random_model(vocabulary), vocabulary)


@pytest.fixture(scope="module")
def attention_of_run(trained):
    return sentence_attention.attention_of_run(trained, CONFIG.decoding)


@pytest.fixture(scope="module")
def alone(trained):
    """A function of a sentence pair: pieces of both sides and maps, without a batch."""
    row = tf.TensorSpec([1, None], tf.int32)
    # Traced, because Keras warns eagerly of a softmax over a single key.
    compute = tf.function(
        lambda *sides: attention_maps(trained.model, *sides), input_signature=[row, row]
    )

    def compute_maps(source: str, target: str):
        ids = [trained.vocabulary.encode(text) for text in (source, target)]
        maps = compute(tf.constant([ids[0]]), tf.constant([[0, *ids[1][:-1]]]))
        pieces = [tuple(trained.vocabulary.pieces(each)) for each in ids]
        return *pieces, [np.asarray(part)[0] for part in maps]

    return compute_maps


@pytest.fixture(scope="module")
def export(trained, tmp_path_factory):
    """The base directory of an export that attends as the model and translates to caps.

    The test of the program has a real export, whose search takes long to save.
    """
    decoding = CONFIG.decoding
    served = saved_model.build_served_model(trained, decoding.extra_length)
    module = TranslatorModule(
        served,
        trained.vocabulary,
        BeamSearchSettings(beam_size=decoding.beam_size, alpha=decoding.alpha),
        LIMITS,
    )
    root = tf.Module()
    root.parts = [served.weights, module.tokenizers]
    text = tf.TensorSpec([None], tf.string, name=signature.TEXT)
    shout = tf.function(
        lambda text: {signature.TRANSLATION: tf.strings.upper(text)},
        input_signature=[text],
    )
    signatures = {signature.ATTENTION: module.attention, signature.TRANSLATE: shout}
    base = tmp_path_factory.mktemp("export")
    tf.saved_model.save(root, str(base / "1"), signatures=signatures)
    return base


def assert_maps(alone, found) -> None:
    assert len(found) == len(SOURCES)
    for source, target, (maps, cut) in zip(SOURCES, TARGETS, found, strict=True):
        sources, targets, expected = alone(source, target)
        assert not cut
        assert maps.encoder[:2] == (sources, sources)
        assert maps.decoder.queries == ("<s>", *targets[:-1])
        assert maps.memory[:2] == (targets, sources)
        for attention, weights in zip(maps, expected, strict=True):
            np.testing.assert_allclose(attention.weights, weights, atol=TOLERANCE)


# The last value makes batches of one sentence each.
@pytest.mark.slow
@pytest.mark.parametrize("weights_at_once", [9_000, 1])
def test_maps_do_not_depend_on_the_batch(
    alone, attention_of_run, monkeypatch, weights_at_once
) -> None:
    monkeypatch.setattr(map_maker, "MAX_WEIGHTS_PER_BATCH", weights_at_once)
    assert_maps(alone, list(attention_of_run.maps(SOURCES, TARGETS)))


def test_head_statistics_do_not_depend_on_batches(
    attention_of_run, monkeypatch
) -> None:
    means = []
    for weights_at_once in (1 << 24, 1):
        monkeypatch.setattr(map_maker, "MAX_WEIGHTS_PER_BATCH", weights_at_once)
        sums = HeadSums()
        for maps, _ in attention_of_run.maps(SOURCES, TARGETS):
            sums.add(maps)
        means.append(sums.means())
    for one, other in zip(*means, strict=True):
        assert one[3:] == pytest.approx(other[3:], abs=1e-5)


@pytest.mark.slow
def test_an_export_gives_the_same_maps(alone, export) -> None:
    served = sentence_attention.attention_of_export(export)
    assert_maps(alone, list(served.maps(SOURCES, TARGETS)))
    assert served.translate(["ein haus", ""]) == ["EIN HAUS", ""]
    assert served.neighborhood is None
    ((maps, cut),) = served.maps(["a"], ["the house " * 400])
    assert cut
    assert len(maps.memory.queries) == SHOWN


@pytest.mark.slow
def test_a_parser_reads_words_and_writes_symbols(trained) -> None:
    """As the model sees them: no trees are built or drawn."""
    parser = as_trained_model(trained.model, trained.vocabulary, target_language="tree")
    found = sentence_attention.attention_of_run(parser, CONFIG.decoding)
    words = "the old -LRB- green -RRB- house is n't tall ."
    assert found.source(" the old (green) house isn't tall.") == words
    # Words of a treebank are not split again, not even at a final period.
    sentences = [words, "the old Inc."]
    translator = translators.build_translator(
        parser.model, parser.vocabulary, CONFIG.decoding
    )
    symbols = [line.text for line in translator.translate(sentences)]
    assert found.translate(sentences) == symbols
    for sentence, (maps, _) in zip(
        sentences, found.maps(sentences, symbols), strict=True
    ):
        ids = parser.vocabulary.encode(sentence)
        assert maps.encoder.queries == tuple(parser.vocabulary.pieces(ids))


def test_a_translator_reads_raw_text(attention_of_run) -> None:
    assert (
        attention_of_run.source(" the house (old) isn't.") == "the house (old) isn't."
    )


@pytest.mark.slow
def test_for_a_parsers_export_the_symbols_of_the_tree_are_drawn(
    export, tmp_path
) -> None:
    version = tmp_path / "1"
    shutil.copytree(export / "1", version)
    card = version / "model_card.json"
    # The fake export upper-cases these texts: a tree, nothing, and no tree.
    texts = ["(s (np (dt the) (nn dog)) (. .))", "", "(x b)"]
    card.write_text(json.dumps({"languages": {"source": "en", "target": "tree"}}))
    served = sentence_attention.attention_of_export(tmp_path)
    assert served.translate(texts) == ["(S (NP DT NN )NP . )S", "", "X"]
    assert served.source("isn't.") == "isn't."
    card.write_text(json.dumps({"languages": {"source": "en", "target": "de"}}))
    served = sentence_attention.attention_of_export(tmp_path)
    assert served.translate(texts) == [text.upper() for text in texts]
    card.write_text("{")
    with pytest.raises(UserError, match=r"/1 cannot be loaded: .*line 1"):
        sentence_attention.attention_of_export(tmp_path)


def test_long_sentences_are_cut_and_marked(attention_of_run) -> None:
    long = "the house " * 400
    found = list(attention_of_run.maps([long, "a", "a"], ["a", "a", long]))
    assert [cut for _, cut in found] == [True, False, True]
    maps = found[0][0]
    assert len(maps.encoder.queries) == MAX_SOURCE_LENGTH
    assert len(found[2][0].memory.queries) == MAX_SOURCE_LENGTH
    assert maps.encoder.queries[-1] == "</s>"


def test_the_newest_version_is_loaded(tmp_path) -> None:
    (tmp_path / "9").mkdir()
    (tmp_path / "10").mkdir()
    (tmp_path / "11").mkdir()  # not written yet
    (tmp_path / "9" / "saved_model.pb").write_bytes(b"no graph")
    (tmp_path / "10" / "saved_model.pb").write_bytes(b"no graph either")
    with pytest.raises(UserError, match=r"/10 cannot be loaded: "):
        sentence_attention.attention_of_export(tmp_path)


def test_a_missing_export_is_refused(tmp_path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError, match=f"no SavedModel in {re.escape(str(path))}"):
            sentence_attention.attention_of_export(path)


def test_an_export_without_attention_is_refused(tmp_path) -> None:
    module = tf.Module()
    ask = tf.function(lambda x: x, input_signature=[tf.TensorSpec([None], tf.int32)])
    tf.saved_model.save(module, str(tmp_path), signatures={"translate_ids": ask})
    message = "has no signature 'attention', only translate_ids. Give the --export_dir"
    with pytest.raises(UserError, match=re.escape(message)):
        sentence_attention.attention_of_export(tmp_path)
