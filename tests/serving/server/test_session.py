"""A session answers as TensorFlow's runtime does, not as Python would."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.serving.server.errors import ServingError
from t2t_keras.serving.server.session import ModelSession
from tests.serving.server.clients import wait_until


def texts(*values):
    return np.array(values, object)


def run(session, signature, timeout=None, **inputs):
    contract = session.signatures[signature]
    feeds = {contract.inputs[name].name: value for name, value in inputs.items()}
    names = sorted(contract.outputs)
    fetches = [contract.outputs[name].name for name in names]
    return dict(zip(names, session.run(feeds, fetches, timeout), strict=True))


def test_variables_are_those_of_the_export(session):
    found = run(session, "serving_default", text=texts(b"abc", b"", b"\0\xff"))
    assert found["translation"].tolist() == [b"v2:abc", b"v2:", b"v2:\0\xff"]
    assert found["score"].tolist() == [3.0, 0.0, 2.0]


def test_what_the_graph_can_do_with_a_shape_is_for_the_graph_to_say(session):
    for shape in [(0,), (), (2, 3)]:
        found = run(session, "serving_default", text=np.full(shape, b"a", object))
        assert found["translation"].shape == found["score"].shape == shape, shape
        assert found["translation"].dtype == object, shape


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([1], np.int32), "to be string but int32 is provided"),
        (np.array([True]), "to be string but bool is provided"),
    ],
)
def test_another_type_is_refused_by_the_runtime(session, values, message):
    with pytest.raises(ServingError, match=message) as caught:
        run(session, "serving_default", text=values)
    assert caught.value.code.name == "INVALID_ARGUMENT"


def test_what_an_assertion_says_reaches_the_client(session):
    with pytest.raises(ServingError, match="poison is not food") as caught:
        run(session, "picky", text=texts(b"bread", b"poison"))
    assert caught.value.code.name == "INVALID_ARGUMENT"


def test_the_runtime_stops_at_the_deadline(session):
    start = time.monotonic()
    with pytest.raises(ServingError) as caught:
        run(session, "busy", timeout=0.2, seconds=np.array([30.0], np.float32))
    assert caught.value.code.name == "DEADLINE_EXCEEDED"
    assert 0.2 <= time.monotonic() - start < 10


@pytest.mark.parametrize("timeout", [0, -1])
def test_no_time_is_not_any_time(session, timeout):
    """TensorFlow takes a timeout of 0 for none."""
    with pytest.raises(ServingError) as caught:
        run(session, "serving_default", timeout=timeout, text=texts(b"a"))
    assert caught.value.code.name == "DEADLINE_EXCEEDED"


def test_threads_get_their_own_answers(session):
    found = {}

    def ask(index):
        for _ in range(20):
            text = b"x" * index
            found[index] = run(session, "serving_default", text=texts(text))

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i]["score"].tolist() for i in range(8)] == [[i] for i in range(8)]


def test_loops_leave_threads_to_others(session, saved, tmp_path):
    """However few cores there are; a loop holds its thread to the end."""
    ends = [tmp_path / name for name in "abc"]
    with ThreadPoolExecutor(3) as pool:
        asked = [
            pool.submit(run, session, "wait", 200, text=texts(bytes(end)))
            for end in ends
        ]
        try:
            for end in ends:
                wait_until(Path(f"{end}.begun").exists)
            found = run(session, "serving_default", 200, text=texts(b"a"))
            assert found["translation"].tolist() == [b"v2:a"]
            ModelSession(saved / "3").close()
        finally:
            for end in ends:
                end.touch()
        for end, future in zip(ends, asked, strict=True):
            assert future.result()["translation"].tolist() == [bytes(end).upper()]


def test_what_initializes_has_no_outputs(session):
    contract = session.signatures["__saved_model_init_op"]
    (info,) = contract.outputs.values()
    with pytest.raises(ServingError, match="output index too large"):
        session.run({}, [info.name])


def test_a_folder_without_a_graph_is_not_found(tmp_path):
    with pytest.raises(ServingError, match=str(tmp_path)) as caught:
        ModelSession(tmp_path)
    assert caught.value.code.name == "NOT_FOUND"


def test_a_damaged_graph_is_refused(base):
    path = base / "2" / "saved_model.pb"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ServingError):
        ModelSession(base / "2")


def test_lost_variables_are_refused(base):
    for path in (base / "2" / "variables").iterdir():
        path.unlink()
    with pytest.raises(ServingError):
        ModelSession(base / "2")


def test_a_keras_object_on_the_root_is_caught_here(tmp_path):
    """`tf.saved_model.load` would bind its variables all the same."""
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
from t2t_keras.serving.server.session import ModelSession, disable_xla
session = ModelSession(sys.argv[1])
contract = session.signatures["compiled"]
feeds = {contract.inputs["x"].name: np.array([1.5], np.float32)}
fetches = [contract.outputs["y"].name]
if sys.argv[2] == "without":
    disable_xla()
print(session.run(feeds, fetches))
"""


@pytest.mark.slow
def test_the_compiler_is_refused_as_in_a_stock_server(saved):
    """In a process of its own: it is for good."""

    def answer(xla):
        return subprocess.run(
            [sys.executable, "-c", WITH_AND_WITHOUT_XLA, str(saved / "1"), xla],
            capture_output=True,
            text=True,
            timeout=300,
        )

    assert "3." in answer("with").stdout
    assert "INTERNAL: XLA compilation disabled" in answer("without").stderr
