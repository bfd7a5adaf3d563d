"""A search under XLA finds what it finds without; only shapes are rounded up."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.serving.export.compiled_search import buckets_up_to, compile_search
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
    """The search, plain and compiled, in graphs of any shape; and how it was asked."""
    asked = []
    plain = toy_model(weight).search

    def noting(source, settings, *, options=None, growing=True):
        asked.append((options is not None, growing))
        return plain(source, settings, options=options)

    ids = tf.TensorSpec([None, None], tf.int32)
    rows = [tf.TensorSpec([None], kind) for kind in (tf.int32, tf.float32, tf.int32)]

    def traced(search):
        return tf.function(lambda ids: search(ids, SETTINGS), input_signature=[ids])

    def with_options(search):
        return tf.function(
            lambda ids, b, a, m: search(ids, SETTINGS, options=RowOptions(b, a, m)),
            input_signature=[ids, *rows],
        )

    under_xla = compile_search(noting, BUCKETS)
    return traced(plain), traced(under_xla), with_options(under_xla), asked


@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize("length", [1, 3, 4, 7])
def test_the_same_is_found(searches, rows, length):
    plain, under_xla, *_ = searches
    generator = np.random.default_rng(length)
    ids = generator.integers(2, 260, [rows, length], dtype=np.int32)
    ids[:, -1] = 1
    ids[rows // 2 :, length // 2 + 1 :] = 0
    expected, found = plain(ids), under_xla(ids)
    width = min(bucket for bucket in BUCKETS if bucket >= length)
    assert found.tokens.shape == (rows, 2, width)
    np.testing.assert_array_equal(found.tokens[:, :, :length], expected.tokens)
    assert not np.any(found.tokens[:, :, length:])
    np.testing.assert_array_equal(found.lengths, expected.lengths)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
    np.testing.assert_allclose(found.log_probs, expected.log_probs, rtol=1e-6)


def test_xla_runs_it_and_shapes_stay(searches):
    _, under_xla, with_options, asked = searches

    def compiled_functions(function):
        library = function.get_concrete_function().graph.as_graph_def().library
        return [f for f in library.function if f.attr["_XlaMustCompile"].b]

    asked.clear()
    under_xla.get_concrete_function()
    assert compiled_functions(under_xla)
    assert not compiled_functions(with_options)
    # With options the plain search is asked, which may grow.
    assert (True, True) in asked
    assert (True, False) not in asked and (False, True) not in asked
