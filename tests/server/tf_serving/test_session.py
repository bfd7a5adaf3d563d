"""Model session: outputs, errors and deadlines as in TensorFlow's own runtime."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.tf_serving.session import ModelSession, session_config
from t2t_keras.server.workers import CancelToken
from tests.server.tf_serving.clients import wait_until


def texts(*values):
    return np.array(values, object)


def run(session, signature, timeout=None, cancel_token=None, **inputs):
    contract = session.signatures[signature]
    feeds = {contract.inputs[name].name: value for name, value in inputs.items()}
    names = sorted(contract.outputs)
    fetches = [contract.outputs[name].name for name in names]
    values = session.run(feeds, fetches, timeout, cancel_token)
    return dict(zip(names, values, strict=True))


@pytest.mark.parametrize("signature", ["picky", "picky_inside"])
def test_the_message_of_an_assertion_reaches_the_client(session, signature):
    for _ in range(20):
        with pytest.raises(ServingError, match="poison is not food") as caught:
            run(session, signature, text=texts(b"bread", b"poison"))
        assert caught.value.code.name == "INVALID_ARGUMENT"
    outputs = run(session, signature, text=texts(b"bread"))
    assert outputs["translation"].tolist() == [b"BREAD"]


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_timeout_of_zero_is_exceeded(session, timeout):
    """For TensorFlow, 0 means no timeout."""
    with pytest.raises(ServingError) as caught:
        run(session, "serving_default", timeout=timeout, text=texts(b"a"))
    assert caught.value.code.name == "DEADLINE_EXCEEDED"


def test_loops_leave_threads_to_other_requests(session, saved, tmp_path):
    """Even with few cores, although a loop occupies its thread to the end."""
    ends = [tmp_path / name for name in "abc"]
    with ThreadPoolExecutor(3) as pool:
        futures = [
            pool.submit(run, session, "wait", 200, text=texts(bytes(end)))
            for end in ends
        ]
        try:
            for end in ends:
                wait_until(Path(f"{end}.begun").exists)
            outputs = run(session, "serving_default", 200, text=texts(b"a"))
            assert outputs["translation"].tolist() == [b"v2:a"]
            ModelSession(saved / "3").close()
        finally:
            for end in ends:
                end.touch()
        for end, future in zip(ends, futures, strict=True):
            assert future.result()["translation"].tolist() == [bytes(end).upper()]


def test_a_folder_without_a_graph_is_not_found(tmp_path):
    with pytest.raises(ServingError, match=str(tmp_path)) as caught:
        ModelSession(tmp_path)
    assert caught.value.code.name == "NOT_FOUND"


def test_a_keras_object_on_the_root_is_detected(tmp_path):
    """`tf.saved_model.load` would load its variables nevertheless."""
    layer = tf.keras.layers.Embedding(3, 1)
    layer.build([None])
    root = tf.Module()
    root.layer = layer
    ids = tf.TensorSpec([None], tf.int32, name="ids")
    call = tf.function(lambda ids: {"out": layer.embeddings.value[ids[0]]}, [ids])
    tf.saved_model.save(root, str(tmp_path), signatures=call)
    one = np.array([1], np.int32)
    loaded = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    assert loaded(ids=tf.constant(one))["out"].shape == (1,)
    with pytest.raises(ServingError, match="not find variable") as caught:
        run(ModelSession(tmp_path), "serving_default", ids=one)
    assert caught.value.code.name == "FAILED_PRECONDITION"


def test_xla_is_refused_as_in_a_stock_server(saved, session):
    one = np.array([1.5], np.float32)
    assert run(session, "compiled", x=one)["y"].tolist() == [3.0]
    without = ModelSession(saved / "1", xla=False)
    with pytest.raises(ServingError, match="INTERNAL: XLA compilation disabled"):
        run(without, "compiled", x=one)
    # Signatures that XLA does not compile.
    outputs = run(without, "picky_inside", text=texts(b"a"))
    assert outputs["translation"].tolist() == [b"A"]
    without.close()


def test_a_value_of_another_type_is_refused_and_not_converted(session):
    with pytest.raises(ServingError) as caught:
        run(session, "busy", seconds=np.array([0.0]))
    assert caught.value.message == "Expects arg[0] to be float but double is provided"
    assert caught.value.code.name == "INVALID_ARGUMENT"


@pytest.fixture
def narrow_session(saved):
    """A session that runs one request at a time."""
    session = ModelSession(saved / "2", session_config(inter_op=1))
    yield session
    session.close()


@pytest.mark.parametrize("reason", ["CANCELLED", "DEADLINE_EXCEEDED"])
def test_a_request_that_nobody_waits_for_is_not_begun(narrow_session, tmp_path, reason):
    first, second = tmp_path / "first", tmp_path / "second"
    timeout = 0.2 if reason == "DEADLINE_EXCEEDED" else None
    token = CancelToken()
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(run, narrow_session, "wait", text=texts(bytes(first)))
        try:
            wait_until(Path(f"{first}.begun").exists)
            inputs = {"text": texts(bytes(second))}
            waiting = pool.submit(run, narrow_session, "wait", timeout, token, **inputs)
            if not timeout:
                token.cancel()
            with pytest.raises(ServingError, match=reason):
                waiting.result(60)
            assert not running.done()
        finally:
            first.touch()
            second.touch()
        assert running.result()["translation"].tolist() == [bytes(first).upper()]
    assert not Path(f"{second}.begun").exists()
    # Its place is free again.
    assert run(narrow_session, "serving_default", text=texts(b"a"))


def test_a_session_that_was_closed_answers_that_requests_are_canceled(saved):
    session = ModelSession(saved / "2")
    session.close()
    with pytest.raises(ServingError, match="CANCELLED"):
        run(session, "serving_default", text=texts(b"a"))
