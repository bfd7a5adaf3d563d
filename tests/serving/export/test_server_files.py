"""Configuration files for servers, parsed with the messages that servers use."""

import pytest
import yaml
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)
from tensorflow_serving.config import model_server_config_pb2

from t2t_keras.errors import UserError
from t2t_keras.serving.export.server_files import (
    find_differing_files,
    read_max_batch_size,
    write_batching_parameters,
    write_server_files,
)
from t2t_keras.serving.server.configs import read_batching

WRAPPED = ".google.protobuf.Int64Value"
# From session_bundle_config.proto and monitoring_config.proto, for which
# tensorflow-serving-api has no Python module: message, field, number, type, repeated.
FIELDS = (
    ("BatchingParameters", "max_batch_size", 1, WRAPPED, False),
    ("BatchingParameters", "batch_timeout_micros", 2, WRAPPED, False),
    ("BatchingParameters", "max_enqueued_batches", 3, WRAPPED, False),
    ("BatchingParameters", "num_batch_threads", 4, WRAPPED, False),
    ("BatchingParameters", "allowed_batch_sizes", 6, "int64", True),
    ("BatchingParameters", "pad_variable_length_inputs", 7, "bool", False),
    ("PrometheusConfig", "enable", 1, "bool", False),
    ("PrometheusConfig", "path", 2, "string", False),
    ("MonitoringConfig", "prometheus_config", 1, ".s.PrometheusConfig", False),
)
NAMES = ("BatchingParameters", "PrometheusConfig", "MonitoringConfig")


@pytest.fixture(scope="module")
def messages():
    """The classes of these messages."""
    file = descriptor_pb2.FileDescriptorProto(
        name="s.proto",
        package="s",
        syntax="proto3",
        dependency=["google/protobuf/wrappers.proto"],
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    described = {name: file.message_type.add(name=name) for name in NAMES}
    for message, name, number, kind, repeated in FIELDS:
        field = described[message].field.add(
            name=name,
            number=number,
            label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL,
        )
        if kind.startswith("."):
            field.type, field.type_name = kinds.TYPE_MESSAGE, kind
        else:
            field.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    wrappers = descriptor_pb2.FileDescriptorProto()
    wrappers_pb2.DESCRIPTOR.CopyToProto(wrappers)
    pool.Add(wrappers)
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"s.{name}"))
        for name in NAMES
    }


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


def test_batching_parameters(base, messages, tmp_path):
    write_batching_parameters(tmp_path, (1, 3, 8))
    for path in (base / "batching.config", tmp_path / "batching_params.pbtxt"):
        parsed = text_format.Parse(path.read_text(), messages["BatchingParameters"]())
        assert parsed.max_batch_size.value == 8
        assert list(parsed.allowed_batch_sizes) == [1, 3, 8]
        assert parsed.num_batch_threads.value >= 1
        assert 0 < parsed.batch_timeout_micros.value < 100_000
        assert parsed.max_enqueued_batches.value > 0
        # It would pad ids with the first id of a row.
        assert not parsed.pad_variable_length_inputs


def test_monitoring(base, messages):
    text = (base / "monitoring.config").read_text()
    parsed = text_format.Parse(text, messages["MonitoringConfig"]())
    assert parsed.prometheus_config.enable
    assert parsed.prometheus_config.path == "/monitoring/prometheus/metrics"
    with pytest.raises(text_format.ParseError):
        text_format.Parse("prometheus { }", messages["MonitoringConfig"]())


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


def test_no_file_contains_a_path_of_this_machine(base):
    for path in base.iterdir():
        assert str(base) not in path.read_text()


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


def test_a_batching_file_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "batching.config"
    path.write_text("max_batch_size: 7")
    with pytest.raises(
        UserError, match=r"Error parsing text-format .*BatchingParameters"
    ):
        read_max_batch_size(path)
