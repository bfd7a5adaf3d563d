"""ModelService over gRPC: status and reload. Refusals are in `model_contract`."""

import shutil

import pytest
from tensorflow_serving.apis import get_model_status_pb2, model_management_pb2

from t2t_keras.serving.server.configs import single_model
from tests.serving.server.clients import refusal, serving, wait_until


def reload(client, config, timeout=30):
    message = model_management_pb2.ReloadConfigRequest(config=config)
    return client.models.HandleReloadConfigRequest(message, timeout)


@pytest.fixture
def client(base):
    with serving(base) as client:
        yield client


def test_the_status_of_a_failed_version_has_its_error(client, base, saved):
    shutil.copytree(saved / "3", base / ".3")
    (base / ".3" / "saved_model.pb").write_bytes(b"broken")
    (base / ".3").rename(base / "3")
    client.wait_for_states({3: "END", 2: "AVAILABLE"})
    message = get_model_status_pb2.GetModelStatusRequest()
    message.model_spec.name = "translate"
    message.model_spec.version.value = 3
    (failed,) = client.models.GetModelStatus(message, timeout=30).model_version_status
    assert failed.status.error_code != 0
    assert failed.status.error_message
    assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]


def test_a_new_model_is_available_when_the_reload_returns(client, base, tmp_path):
    shutil.copytree(base, tmp_path / "other")
    config = single_model("translate", str(base))
    config.MergeFrom(single_model("other", str(tmp_path / "other")))
    assert reload(client, config).status.error_code == 0
    assert client.states("other") == {2: "AVAILABLE"}
    # A model that is no longer listed is unloaded.
    reload(client, single_model("other", str(tmp_path / "other")))
    client.wait_for_states({2: "END"})
    code, message = refusal(lambda: client.predict(text=[b"a"]))
    assert code == "NOT_FOUND"
    assert message == "Servable not found for request: Latest(translate)"


def test_a_new_model_that_cannot_be_loaded(client, base, saved, tmp_path):
    shutil.copytree(saved / "1", tmp_path / "other" / "1")
    (tmp_path / "other" / "1" / "saved_model.pb").write_bytes(b"broken")
    config = single_model("translate", str(base))
    config.MergeFrom(single_model("other", str(tmp_path / "other")))
    code, message = refusal(lambda: reload(client, config))
    assert code == "UNKNOWN"
    assert message.startswith(
        "1 model(s) did not become available: {{{name: other version: 1} due to error"
    )
    assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]


def test_a_new_model_without_a_folder_is_refused_at_once(client, base, tmp_path):
    config = single_model("translate", str(base))
    config.MergeFrom(single_model("other", str(tmp_path / "other")))
    code, message = refusal(lambda: reload(client, config))
    assert code == "INVALID_ARGUMENT"
    assert message.startswith("Could not find base path")
    # It is served as soon as its folder appears.
    shutil.copytree(base, tmp_path / "copy")
    (tmp_path / "copy").rename(tmp_path / "other")
    wait_until(lambda: client.states().get(2) == "AVAILABLE")
    wait_until(lambda: _states(client, "other") == {2: "AVAILABLE"})


def _states(client, name):
    try:
        return client.states(name)
    except Exception:
        return {}
