"""Warm-up requests of an export cover all programs that are slow the first time."""

import contextlib
import shutil

import pytest
import tensorflow as tf

from t2t_keras.server.tf_serving.batching import BatchingOptions, BatchScheduler
from t2t_keras.server.tf_serving.loading import Loader
from t2t_keras.serving.export.requests import (
    SHORT,
    make_text,
    warm_up_requests,
    write_warm_up,
)

ALL = (
    "serving_default",
    "nbest",
    "translate_with_options",
    "score",
    "attention",
    "translate_ids",
)


def shapes(requests, vocabulary, name):
    """Returns rows and longest text in tokens of each request to a signature."""
    return [
        (len(texts), max(len(vocabulary.encode(text)) for text in texts))
        for request in requests
        if request.signature_name == name
        for texts in [request.inputs.get("text", request.inputs.get("source"))]
    ]


@pytest.fixture
def signatures(served):
    return served.signatures


def test_without_xla_each_signature_is_called_once(signatures, vocabulary):
    requests = warm_up_requests(signatures, vocabulary, (1, 2, 5))
    assert requests[0].signature_name == "serving_default"
    short = len(vocabulary.encode(make_text(vocabulary, SHORT)))
    assert shapes(requests, vocabulary, "serving_default") == [(5, short), (1, short)]
    for name in ("nbest", "translate_with_options", "score", "attention"):
        assert shapes(requests, vocabulary, name) == [(1, short)]
    (ids,) = [r.inputs for r in requests if r.signature_name == "translate_ids"]
    assert ids["input_ids"].shape == (1, short)
    assert len(requests) == 7


@pytest.mark.parametrize("buckets", [(), (4, 12)])
def test_a_server_with_batching_can_replay_them(signatures, vocabulary, buckets):
    """All tensors of a request must have the same rows; defaults have none."""
    for request in warm_up_requests(signatures, vocabulary, (1, 5), buckets):
        sizes = {value.shape[:1] for value in request.inputs.values()}
        assert sizes in ({(1,)}, {(5,)})
        definition = signatures[request.signature_name]
        assert request.inputs.keys() == definition.inputs.keys()
        for name, value in request.inputs.items():
            kind = tf.dtypes.as_dtype(definition.inputs[name].dtype)
            assert kind == (tf.string if value.dtype == object else value.dtype)


@pytest.mark.parametrize("buckets", [(3, 6, 30), (4, 200)])
def test_with_xla_every_program_of_the_default_signature_is_compiled(
    signatures, vocabulary, buckets
):
    requests = warm_up_requests(signatures, vocabulary, (1, 5), buckets)
    default_shapes = shapes(requests, vocabulary, "serving_default")
    pairs = {
        (rows, min(bucket for bucket in buckets if bucket >= length))
        for rows, length in default_shapes
    }
    assert pairs == {(rows, bucket) for rows in (1, 5) for bucket in buckets}
    # The shortest possible source selects a long bucket, because the search takes time.
    assert max(length for _, length in default_shapes) <= buckets[-2] + SHORT
    assert {r.signature_name for r in requests} == signatures.keys()


@pytest.mark.slow
@pytest.mark.parametrize("names", [["serving_default"], ALL])
def test_a_server_with_batching_loads_each_choice(
    exported, signatures, vocabulary, tmp_path, names
):
    shutil.copytree(exported, tmp_path / "1")
    chosen = {name: signatures[name] for name in names}
    write_warm_up(tmp_path / "1", warm_up_requests(chosen, vocabulary, (1, 4)))
    options = BatchingOptions(max_batch_size=4, allowed_batch_sizes=(1, 4))
    with contextlib.closing(BatchScheduler(options)) as scheduler:
        servable = Loader(scheduler=scheduler)(tmp_path / "1")
        assert servable.signatures.keys() >= {*ALL}
        servable.close()
