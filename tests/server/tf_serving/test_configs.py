"""Configuration files of models, batching, TLS and channel arguments."""

import subprocess

import grpc
import pytest
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from t2t_keras.errors import UserError
from t2t_keras.server.tf_serving import configs
from t2t_keras.server.tf_serving.batching import BatchingOptions
from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.serving.config_protos import empty_message
from tests.server.tf_serving.clients import Client, refusal, serving


def write_file(tmp_path, text):
    path = tmp_path / "file"
    path.write_text(text)
    return str(path)


def models(text):
    return text_format.Parse(text, model_server_config_pb2.ModelServerConfig())


def test_a_file_of_models(tmp_path):
    text = """model_config_list { config {
      name: "translate" base_path: "/m" model_platform: "tensorflow"
      model_version_policy { specific { versions: 1 versions: 2 } }
      version_labels { key: "stable" value: 1 }
    } }"""
    config = configs.read_models(write_file(tmp_path, text))
    (model,) = config.model_config_list.config
    assert model.model_version_policy.specific.versions == [1, 2]
    assert dict(model.version_labels) == {"stable": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("custom_model_config {}", "lists no models"),
        ("model_config_list { config { nam: 'x' } }", "no field named"),
        ("\0", "ModelServerConfig"),
    ],
)
def test_a_bad_file_of_models(tmp_path, text, message):
    path = write_file(tmp_path, text)
    with pytest.raises(UserError, match=message) as caught:
        configs.read_models(path)
    assert path in str(caught.value)


def test_a_missing_file_of_models(tmp_path):
    with pytest.raises(UserError, match="There is no file"):
        configs.read_models(str(tmp_path / "none"))


ONE = 'config { name: "a" base_path: "/a" model_platform: "tensorflow" }'


def test_a_path_that_tensorflow_cannot_read_is_refused():
    with pytest.raises(ServingError) as caught:
        configs.check_models(
            models(f"model_config_list {{ {ONE.replace('/a', '/a[1]')} }}"), {}
        )
    assert caught.value.code.name == "INVALID_ARGUMENT"
    assert "/a[1] has [1], which TensorFlow takes for" in caught.value.message


def test_the_deprecated_name_of_the_platform_is_accepted():
    old = ONE.replace('model_platform: "tensorflow"', "model_type: TENSORFLOW")
    current = configs.check_models(models(f"model_config_list {{ {old} }}"), {})
    assert list(current) == ["a"]
    assert configs.check_models(models(f"model_config_list {{ {ONE} }}"), current)


def test_batching_defaults_equal_those_of_tensorflow_serving():
    assert configs.read_batching("", 3) == BatchingOptions(
        max_batch_size=1000,
        batch_timeout_seconds=0.0,
        max_enqueued_batches=10,
        num_batch_threads=3,
        allowed_batch_sizes=(),
        split=False,
        max_request_size=1000,
    )


def test_a_file_of_batching_parameters(tmp_path):
    text = """
        max_batch_size { value: 32 } batch_timeout_micros { value: 2500 }
        max_enqueued_batches { value: 7 } num_batch_threads { value: 2 }
        allowed_batch_sizes: [1, 8, 16] enable_large_batch_splitting { value: true }
        max_execution_batch_size { value: 16 }
    """
    assert configs.read_batching(write_file(tmp_path, text), 3) == BatchingOptions(
        max_batch_size=16,
        batch_timeout_seconds=0.0025,
        max_enqueued_batches=7,
        num_batch_threads=2,
        allowed_batch_sizes=(1, 8, 16),
        split=True,
        max_request_size=32,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_batch_size { value: 0 }", "max_batch_size must be positive. Received: 0"),
        ("batch_timeout_micros { value: -1 }", "batch_timeout_micros must be positive"),
        (
            "max_batch_size: 8",
            "Error parsing text-format tensorflow.serving.BatchingParameters",
        ),
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: [1, 4]",
            "last entry was 4; expected 8",
        ),
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: [4, 1, 8]",
            "must be positive and increasing. Received: 4, 1, 8",
        ),
        (
            "max_batch_size { value: 8 } max_execution_batch_size { value: 4 }",
            "needs enable_large_batch_splitting",
        ),
        (
            "max_batch_size { value: 8 } max_execution_batch_size { value: 16 } "
            "enable_large_batch_splitting { value: true }",
            "a max_batch_size of 8",
        ),
    ],
)
def test_bad_batching_parameters_are_refused(tmp_path, text, message):
    path = write_file(tmp_path, text)
    with pytest.raises(UserError) as caught:
        configs.read_batching(path, 1)
    assert message in str(caught.value)
    assert path in str(caught.value)


def test_keys_without_a_certificate(tmp_path):
    with pytest.raises(UserError, match="server_cert are required"):
        configs.read_credentials(write_file(tmp_path, 'server_key: "k"'))


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two private keys, each with a certificate that it has signed itself."""
    pairs = []
    for name in ("first", "second"):
        key = tmp_path_factory.mktemp(name) / "key.pem"
        certificate = key.with_name("certificate.pem")
        subprocess.run(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
            "-days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost "
            f"-keyout {key} -out {certificate}",
            shell=True,
            check=True,
            capture_output=True,
        )
        pairs.append((key.read_text(), certificate.read_text()))
    return pairs


def ssl_text(key, certificate, ca="", verify=False):
    config = empty_message("SSLConfig")
    config.server_key, config.server_cert, config.custom_ca = key, certificate, ca
    config.client_verify = verify
    return text_format.MessageToString(config)


def test_keys_that_fit_are_used(tmp_path, keys, base):
    """By clients that must show a certificate, and others that need not."""
    (key, certificate), (other_key, other_certificate) = keys
    for verify in (False, True):
        text = ssl_text(key, certificate, ca=other_certificate, verify=verify)
        credentials = configs.read_credentials(write_file(tmp_path, text))
        with serving(base, credentials=credentials) as client:
            for pair in (
                (None, None),
                (other_key.encode(), other_certificate.encode()),
            ):
                shown = grpc.ssl_channel_credentials(certificate.encode(), *pair)
                with grpc.secure_channel(client.address, shown) as channel:
                    client_with_keys = Client(channel=channel)
                    if verify and not pair[0]:
                        answer = refusal(
                            lambda c=client_with_keys: c.predict(text=["a"])
                        )
                        assert answer[0] == "UNAVAILABLE"
                    else:
                        answer = client_with_keys.predict(text=["a"])
                        assert answer["translation"] == [b"v2:a"]


def test_keys_that_cannot_be_used_are_refused(tmp_path, keys):
    (key, certificate), (_, other_certificate) = keys
    for text in (
        ssl_text("no key", certificate),
        ssl_text(key, "no certificate"),
        ssl_text(key, other_certificate),
        ssl_text(key, certificate, ca="no certificate", verify=True),
    ):
        path = write_file(tmp_path, text)
        with pytest.raises(UserError, match=f"{path}: TLS cannot be started with"):
            configs.read_credentials(path)


def test_channel_arguments():
    text = "grpc.max_receive_message_length=10,grpc.x=-1,grpc.y=on,"
    assert configs.channel_arguments(text) == [
        ("grpc.max_receive_message_length", 10),
        ("grpc.x", -1),
        ("grpc.y", "on"),
    ]
    assert configs.channel_arguments("") == []
    with pytest.raises(UserError, match=r"name=value. Received: grpc\.z"):
        configs.channel_arguments("grpc.x=1,grpc.z")
