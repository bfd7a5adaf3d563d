"""Model session: outputs, errors and deadlines as in TensorFlow's own runtime."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.tf_serving.session import ModelSession
from tests.forked import run_python
from tests.server.tf_serving.clients import wait_until


def texts(*values):
    return np.array(values, object)


def run(session, signature, timeout=None, **inputs):
    contract = session.signatures[signature]
    feeds = {contract.inputs[name].name: value for name, value in inputs.items()}
    names = sorted(contract.outputs)
    fetches = [contract.outputs[name].name for name in names]
    return dict(zip(names, session.run(feeds, fetches, timeout), strict=True))


@pytest.mark.parametrize("signature", ["picky", "picky_inside"])
def test_the_message_of_an_assertion_reaches_the_client(session, signature):
    for _ in range(20):
        with pytest.raises(ServingError, match="poison is not food") as caught:
            run(session, signature, text=texts(b"bread", b"poison"))
        assert caught.value.code.name == "INVALID_ARGUMENT"
    outputs = run(session, signature, text=texts(b"bread"))
    assert outputs["translation"].tolist() == [b"BREAD"]


def test_an_error_is_found_without_preparing_the_graph_again(session, monkeypatch):
    """TensorFlow does so for each set of fetches, targets and feeds, for seconds."""
    sets, run_ops = [], session._run_ops

    def record(fetches, targets, feeds, *others):
        names = [each.name for each in (*fetches, *targets, *feeds)]
        if fetches:
            sets.append(sorted(names))
        return run_ops(fetches, targets, feeds, *others)

    monkeypatch.setattr(session, "_run_ops", record)
    run(session, "picky_inside", text=texts(b"bread"))
    for _ in range(20):
        with pytest.raises(ServingError, match="poison is not food"):
            run(session, "picky_inside", text=texts(b"poison"))
    assert len(sets) > 1
    assert all(each == sets[0] for each in sets)


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


WITH_AND_WITHOUT_XLA = """
import sys
import numpy as np
from t2t_keras.server.tf_serving.session import ModelSession, disable_xla
session = ModelSession(sys.argv[1])
contract = session.signatures["compiled"]
feeds = {contract.inputs["x"].name: np.array([1.5], np.float32)}
fetches = [contract.outputs["y"].name]
if sys.argv[2] == "without":
    disable_xla()
print(session.run(feeds, fetches))
"""


@pytest.mark.slow
def test_xla_is_refused_as_in_a_stock_server(saved):
    """In another process, because XLA cannot be enabled again."""

    def answer(xla):
        return run_python("-c", WITH_AND_WITHOUT_XLA, saved / "1", xla)

    assert b"3." in answer("with").stdout
    assert b"INTERNAL: XLA compilation disabled" in answer("without").stderr
