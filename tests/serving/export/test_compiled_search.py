"""Search compiled by XLA: equal results, with shapes rounded up to buckets."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.serving.export.ids_module import buckets_up_to, compile_search
from tests.serving.toy_model import toy_model

SETTINGS = BeamSearchSettings(beam_size=2, n_best=2)
BUCKETS = (3, 7)

BUCKETS_UP_TO = (
    (512, (32, 128, 512)),
    (128, (32, 128)),
    (100, (32, 100)),
    (32, (32,)),
    (5, (5,)),
)


def test_the_longest_source_has_a_bucket():
    for longest, expected in BUCKETS_UP_TO:
        assert buckets_up_to(longest) == expected, longest


@pytest.fixture(scope="module")
def searches(weight):
    """The search, plain and compiled, in graphs of any shape; and its calls."""
    calls = []
    plain = toy_model(weight).search

    def record(source, settings, *, options=None, growing=True):
        calls.append((options is not None, growing))
        return plain(source, settings, options=options)

    ids = tf.TensorSpec([None, None], tf.int32)
    rows = [tf.TensorSpec([None], kind) for kind in (tf.int32, tf.float32, tf.int32)]

    def trace(search):
        return tf.function(
            lambda ids: search(ids, SETTINGS), input_signature=[ids], autograph=False
        )

    def trace_with_options(search):
        return tf.function(
            lambda ids, b, a, m: search(ids, SETTINGS, options=RowOptions(b, a, m)),
            input_signature=[ids, *rows],
            autograph=False,
        )

    under_xla = compile_search(record, BUCKETS)
    return trace(plain), trace(under_xla), trace_with_options(under_xla), calls


@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize("length", [1, 3, 4, 7])
def test_results_are_equal(searches, rows, length):
    plain, under_xla, *_ = searches
    generator = np.random.default_rng(length)
    ids = generator.integers(2, 260, [rows, length], dtype=np.int32)
    ids[:, -1] = 1
    ids[rows // 2 :, length // 2 + 1 :] = 0
    expected, result = plain(ids), under_xla(ids)
    width = min(bucket for bucket in BUCKETS if bucket >= length)
    assert result.tokens.shape == (rows, 2, width)
    np.testing.assert_array_equal(result.tokens[:, :, :length], expected.tokens)
    assert not np.any(result.tokens[:, :, length:])
    np.testing.assert_array_equal(result.lengths, expected.lengths)
    np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-6)
    np.testing.assert_allclose(result.log_probs, expected.log_probs, rtol=1e-6)


def test_only_the_search_without_options_is_compiled(searches):
    _, under_xla, with_options, calls = searches

    def compiled_functions(function):
        library = function.get_concrete_function().graph.as_graph_def().library
        return [f for f in library.function if f.attr["_XlaMustCompile"].b]

    calls.clear()
    under_xla.get_concrete_function()
    assert compiled_functions(under_xla)
    assert not compiled_functions(with_options)
    # With options the plain search is used, whose cache may grow.
    assert (True, True) in calls
    assert (True, False) not in calls and (False, True) not in calls
