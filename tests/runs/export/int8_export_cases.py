"""Exports of int8 products; test_int8.py runs these tests with oneDNN."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.decoding.transformer_search import (
    Ensemble,
    search_translations,
    target_log_probs,
)
from t2t_keras.runs.export import saved_model
from t2t_keras.runs.export.export_settings import ExportSettings
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.serving.export.requests import Request
from t2t_keras.serving.export.validation import list_ops, open_session, read_meta_graph
from tests.runs.random_model import CONFIG, random_lines, random_trained_model
from tests.stock_ops import CORE_OPS, ONEDNN_OPS, TOKENIZER_OPS

LINES = ("the old house", *random_lines(6, seed=3), "")
SETTINGS = ExportSettings(
    CONFIG.decoding,
    precision="int8",
    n_best=2,
    max_source_length=11,
    max_characters=40,
    max_beam_size=6,
    max_attention_length=7,
    batch_sizes=(1, 8),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    one = random_trained_model(tmp_path_factory, num_layers=1)
    other = random_trained_model(tmp_path_factory, num_layers=2, d_model=30)
    training = dataclasses.replace(other.config.training, precision="bfloat16")
    config = dataclasses.replace(other.config, training=training)
    return dataclasses.replace(one, others=(dataclasses.replace(other, config=config),))


@pytest.fixture(scope="module")
def version(trained, tmp_path_factory):
    model_dir = ModelDir(tmp_path_factory.mktemp("run"))
    version = saved_model.export_saved_model(trained, model_dir, "text", SETTINGS)
    assert saved_model.newest_export(trained, model_dir, "text", SETTINGS) == version
    return version


def test_signatures_agree_and_find_what_the_search_does(trained, version):
    quantized = saved_model.in_precision(trained, "int8")
    assert isinstance(quantized.search_model, Ensemble)
    vocabulary, texts = trained.vocabulary, np.array(LINES, object)
    with open_session(version) as session:

        def ask(name, **inputs):
            return session.ask(Request(name, inputs))

        best = ask("serving_default", text=texts)
        several = ask("nbest", text=texts)
        scored = ask("score", source=texts, target=best["translation"])
        maps = ask("attention", source=texts[:2], target=best["translation"][:2])
        ids = vocabulary.encode(LINES[0])
        of_ids = ask("translate_ids", input_ids=np.array([ids], np.int32))
    search = search_translations(
        quantized.search_model,
        tf.constant([ids]),
        BeamSearchSettings(),
        CONFIG.decoding.extra_length,
    )
    expected = search.tokens[0, 0].numpy()
    np.testing.assert_array_equal(of_ids["output_ids"][0], expected)
    assert best["translation"][0].decode() == vocabulary.decode(expected.tolist())
    np.testing.assert_allclose(best["score"][0], search.scores[0, 0], rtol=1e-5)
    np.testing.assert_allclose(several["scores"][:, 0], best["score"], rtol=1e-5)
    # Subwords of a random model are not those that its words are divided into.
    target = vocabulary.encode(best["translation"][0].decode())
    log_probs = target_log_probs(
        quantized.search_model, tf.constant([ids]), tf.constant([target])
    )
    found = scored["log_prob"][0]
    np.testing.assert_allclose(found, tf.reduce_sum(log_probs), rtol=1e-5)
    sums = maps["memory_attention"].sum(-1)
    np.testing.assert_allclose(sums[sums > 0.5], 1.0, rtol=1e-5)


def test_each_kernel_is_saved_once_and_no_float_matrix(trained, version):
    graph = read_meta_graph(version)
    assert list_ops(graph) - CORE_OPS == TOKENIZER_OPS | ONEDNN_OPS
    saved = 0
    for function in graph.graph_def.library.function:
        for node in function.node_def:
            tensor = node.attr["value"].tensor
            if node.op == "Const" and tensor.dtype == types_pb2.DT_INT8:
                saved += np.prod([axis.size for axis in tensor.tensor_shape.dim])
    models = [each.model for each in (trained, *trained.others)]
    kernels = [
        np.prod(weight.shape)
        for model in models
        for weight in model.weights
        if len(weight.shape) == 2
    ]
    # The embeddings are a kernel, transposed, and a table for lookups.
    assert saved == sum(kernels)
    reader = tf.train.load_checkpoint(str(version / "variables/variables"))
    types = reader.get_variable_to_dtype_map()
    matrices = {
        types[name]
        for name, shape in reader.get_variable_to_shape_map().items()
        if len(shape) == 2
    }
    assert matrices == {tf.int8}
    card = json.loads((version / "model_card.json").read_text())
    assert card["model"]["precision"] == "int8"
    assert card["model"]["parameters"] == models[0].count_params()
