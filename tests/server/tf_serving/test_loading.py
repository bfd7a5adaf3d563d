"""Loading of a version: with and without batching, and warm-up requests."""

import os
import sys
import threading

import numpy as np
import pytest

from t2t_keras.server.tf_serving import loading
from t2t_keras.server.tf_serving.batching import BatchingOptions, BatchScheduler
from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.tf_serving.loading import Loader
from tests.server.tf_serving.warm_up_requests import predict_log, write


@pytest.fixture
def scheduler():
    scheduler = BatchScheduler(
        BatchingOptions(max_batch_size=4, allowed_batch_sizes=(4,))
    )
    yield scheduler
    scheduler.close()


def write_batching(version, text):
    path = version / "batching_params.pbtxt"
    path.write_text(text)
    return path


def rows_seen(servable):
    """Returns the batch sizes that requests of one row run with."""
    contract = servable.signatures["sums"]
    feeds = {contract.inputs["ids"].name: np.array([[1, 2]], np.int32)}
    (rows,) = servable.run(feeds, [contract.outputs["rows"].name], None)
    return rows.tolist()


def test_a_request_runs_alone_without_batching(base):
    servable = Loader()(base / "1")
    assert rows_seen(servable) == [1]
    servable.close()


def test_a_request_runs_in_a_batch(base, scheduler):
    servable = Loader(scheduler=scheduler)(base / "1")
    assert rows_seen(servable) == [4]
    servable.close()


def test_each_version_may_have_batches_of_its_own(base, scheduler):
    """Without its file a version has none, as in TensorFlow Serving."""
    loader = Loader(scheduler=scheduler, per_model_batching=True)
    write_batching(base / "1", "max_batch_size { value: 3 }\nallowed_batch_sizes: 3")
    own, without = loader(base / "1"), loader(base / "2")
    try:
        assert rows_seen(own) == [3]
        assert rows_seen(without) == [1]
        assert (own.max_request_size, without.max_request_size) == (3, 0)
    finally:
        own.close()
        without.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_batch", "Error parsing text-format tensorflow.serving.BatchingParam"),
        ("max_batch_size { value: 0 }", "max_batch_size must be positive"),
    ],
)
def test_a_version_with_a_faulty_batching_file_is_not_loaded(
    base, scheduler, text, message
):
    path = write_batching(base / "1", text)
    with pytest.raises(ServingError, match=f"{path}: {message}") as caught:
        Loader(scheduler=scheduler, per_model_batching=True)(base / "1")
    assert caught.value.code.name == "INVALID_ARGUMENT"
    # Without the setting nobody reads it.
    Loader(scheduler=scheduler)(base / "1").close()


def test_warm_up_requests_are_batched_too(base, scheduler):
    """Otherwise shapes would be warmed up that no batch has."""
    write(base / "1", predict_log("sums", ids=[[1]] * 5))
    with pytest.raises(ServingError, match="larger than maximum input batch size 4"):
        Loader(scheduler=scheduler)(base / "1")
    Loader()(base / "1").close()


def test_a_warm_up_request_that_fails_fails_the_load(base):
    write(base / "1", predict_log("picky", text=[b"poison"]))
    with pytest.raises(ServingError, match="poison is not food"):
        Loader()(base / "1")
    Loader(warm_up_iterations=0)(base / "1").close()


def test_warm_up_leaves_the_cores_to_other_threads(base, monkeypatch):
    """Its thread has a lower priority than that of the caller, which keeps its own."""

    def priority():
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    found = []
    monkeypatch.setattr(loading, "warm_up", lambda *_: found.append(priority()))
    before = priority()
    Loader()(base / "1").close()
    # Only Linux has a priority for each thread.
    assert found[0] > before or sys.platform != "linux"
    assert priority() == before
