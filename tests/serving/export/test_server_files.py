"""Configuration files for servers, parsed with the messages that servers use."""

import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from t2t_keras.server.tf_serving.configs import read_batching
from t2t_keras.serving.config_protos import empty_message
from t2t_keras.serving.export.server_files import (
    find_differing_files,
    read_max_batch_size,
    write_batching_parameters,
    write_server_files,
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    base = tmp_path_factory.mktemp("run") / "export_xla"
    base.mkdir()
    write_server_files(base, "en-de", (1, 3, 8), xla=True)
    return base


def test_the_list_of_models(base):
    config = text_format.Parse(
        (base / "models.config").read_text(),
        model_server_config_pb2.ModelServerConfig(),
    )
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path) == ("en-de", "/models/en-de")
    assert model.model_platform == "tensorflow"
    assert model.model_version_policy.latest.num_versions == 1


def test_batching_parameters(base, tmp_path):
    write_batching_parameters(tmp_path, (1, 3, 8))
    for path in (base / "batching.config", tmp_path / "batching_params.pbtxt"):
        parsed = text_format.Parse(
            path.read_text(), empty_message("BatchingParameters")
        )
        assert parsed.max_batch_size.value == 8
        assert list(parsed.allowed_batch_sizes) == [1, 3, 8]
        assert parsed.num_batch_threads.value >= 1
        assert 0 < parsed.batch_timeout_micros.value < 100_000
        assert parsed.max_enqueued_batches.value > 0
        # It would pad ids with the first id of a row.
        assert not parsed.pad_variable_length_inputs


def test_monitoring(base):
    text = " ".join((base / "monitoring.config").read_text().split())
    path = "/monitoring/prometheus/metrics"
    assert text.endswith(f'prometheus_config {{ enable: true path: "{path}" }}')


def test_kubernetes_and_docker_start_the_same_server(base):
    deployment, *_, service = yaml.safe_load_all((base / "kubernetes.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    assert mount["mountPath"] == "/models/en-de"
    (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == "en-de-export-xla"
    assert service["spec"]["selector"] == {"app": "en-de"}
    readme = (base / "README.md").read_text()
    assert f"    {container['image']} \\\n" in readme
    for flag in container["args"]:
        if "port" not in flag and "health" not in flag:
            assert flag in readme, flag
    (variable,) = container["env"]
    assert f"    --env {variable['name']}={variable['value']} \\\n" in readme
    assert "--xla_cpu_compilation_enabled=true" in container["args"]
    assert 'source="$PWD",target=/models/en-de,readonly' in readme
    for path in base.iterdir():
        assert "$mount" not in path.read_text()


def test_without_xla_no_file_mentions_it(tmp_path):
    (tmp_path / "export").mkdir()
    write_server_files(tmp_path / "export", "m", (1,), xla=False)
    paths = list((tmp_path / "export").iterdir())
    assert len(paths) == 6
    assert not [path for path in paths if "xla" in path.read_text()]
    documents = yaml.safe_load_all((tmp_path / "export/kubernetes.yaml").read_text())
    kinds = {document["kind"] for document in documents}
    scaling = {"HorizontalPodAutoscaler", "PodDisruptionBudget"}
    assert kinds == {"Deployment", "Service", *scaling}


def test_files_changed_by_an_operator_are_kept(tmp_path):
    write_server_files(tmp_path, "m", (1, 2), xla=False)
    assert find_differing_files(tmp_path, "m", (1, 2), xla=False) == []
    (tmp_path / "models.config").write_text("mine")
    (tmp_path / "batching.config").unlink()
    write_server_files(tmp_path, "m", (1, 4), xla=False)
    assert (tmp_path / "models.config").read_text() == "mine"
    assert "allowed_batch_sizes: 4" in (tmp_path / "batching.config").read_text()
    assert kept_names(tmp_path, "m", (1, 4)) == {"models.config"}


def kept_names(*arguments, xla=False):
    return {path.name for path in find_differing_files(*arguments, xla=xla)}


def test_kept_files_that_differ_are_listed(tmp_path):
    assert kept_names(tmp_path, "m", (1, 2)) == set()
    write_server_files(tmp_path, "m", (1, 2), xla=False)
    named = {"models.config", "compose.yaml", "kubernetes.yaml", "README.md"}
    assert kept_names(tmp_path, "n", (1, 2)) == named
    assert kept_names(tmp_path, "m", (1, 4)) == {"batching.config"}
    assert kept_names(tmp_path, "m", (1, 2), xla=True) == named - {"models.config"}


def test_the_largest_request_equals_that_of_the_embedded_server(tmp_path):
    path = tmp_path / "batching.config"
    for text in (
        "",
        "num_batch_threads { value: 3 }",
        "max_batch_size { value: 7 }",
        "# max_batch_size { value: 9 }\nmax_batch_size: <value: 0x20>",
        "max_batch_size { value: 6 } max_execution_batch_size { value: 2 }"
        "enable_large_batch_splitting { value: true }",
    ):
        path.write_text(text)
        most = read_batching(str(path), num_batch_threads=1).max_request_size
        assert read_max_batch_size(path) == most, text
