"""ModelService over gRPC: status and reload. Refusals are in `model_contract`."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tensorflow_serving.apis import model_management_pb2

from t2t_keras.server.tf_serving.configs import single_model
from t2t_keras.server.tf_serving.loading import Loader
from tests.server.tf_serving.clients import refusal, serving


def reload(client, config, timeout=30):
    message = model_management_pb2.ReloadConfigRequest(config=config)
    return client.models.HandleReloadConfigRequest(message, timeout)


@pytest.fixture
def client(base):
    with serving(base) as client:
        yield client


def test_a_refused_reload_changes_nothing(client, base, tmp_path, capfd):
    """However often it is sent; also if the served model is not in its list."""
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = {
        str(tmp_path / "missing"): ("INVALID_ARGUMENT", "Could not find base path"),
        str(empty): ("NOT_FOUND", "No versions of servable other found"),
        "/a\0b": ("INVALID_ARGUMENT", "The base path of model other has a NUL"),
    }
    for path, (expected, words) in refused.items():
        for _ in range(2):
            code, message = refusal(
                lambda path=path: reload(client, single_model("other", path))
            )
            assert code == expected
            assert message.startswith(words)
            assert client.states() == {2: "AVAILABLE"}
            assert refusal(lambda: client.states("other"))[0] == "NOT_FOUND"
            assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]
    moved = single_model("translate", str(tmp_path / "missing"))
    assert refusal(lambda: reload(client, moved))[0] == "INVALID_ARGUMENT"
    assert "Traceback" not in capfd.readouterr().err
    # Folders are still watched.
    shutil.rmtree(base / "2")
    client.wait_for_states({2: "END", 1: "AVAILABLE"})


def test_a_reload_that_waits_can_be_corrected_by_another(
    client, base, saved, tmp_path, monkeypatch
):
    """Its model loads for as long as the test lasts."""
    shutil.copytree(saved / "1", tmp_path / "slow" / "1")
    gate, begun = threading.Event(), threading.Event()
    load = Loader.__call__

    def wait_and_load(self, directory):
        if directory.parent.name == "slow":
            begun.set()
            assert gate.wait(100)
        return load(self, directory)

    monkeypatch.setattr(Loader, "__call__", wait_and_load)
    config = single_model("translate", str(base))
    config.MergeFrom(single_model("slow", str(tmp_path / "slow")))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(refusal, lambda: reload(client, config, 100))
        assert begun.wait(60)
        reload(client, single_model("translate", str(base)))
        assert waiting.result(60) == (
            "ABORTED",
            "Another reload has removed model slow.",
        )
        gate.set()
