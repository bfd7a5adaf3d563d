"""Configuration files and messages of a server, read and checked.

All of them are TensorFlow Serving's own. So are the messages about a list of models,
which clients can send too.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from tensorflow_serving.config import model_server_config_pb2

from t2t_keras.errors import UserError
from t2t_keras.files.paths import check_readable_by_tensorflow
from t2t_keras.server.tf_serving.batching import BatchingOptions
from t2t_keras.server.tf_serving.errors import invalid_argument
from t2t_keras.serving.config_protos import (
    empty_message,
    read_text_proto,
)

# TensorFlow Serving's default.
METRICS_PATH = "/monitoring/prometheus/metrics"

ModelServerConfig = Any
ModelConfig = Any


def single_model(name: str, base_path: str) -> ModelServerConfig:
    """Returns the configuration of one model, which serves its latest version."""
    config = model_server_config_pb2.ModelServerConfig()
    config.model_config_list.config.add(
        name=name, base_path=base_path, model_platform="tensorflow"
    )
    return config


def read_models(path: str) -> ModelServerConfig:
    """Returns the configuration in a file.

    Raises:
        UserError: If the file does not hold a list of models.
    """
    config = read_text_proto(path, model_server_config_pb2.ModelServerConfig())
    if config.WhichOneof("config") != "model_config_list":
        raise UserError(
            f"{path} lists no models. Write model_config_list {{ config {{ … }} }}."
        )
    return config


def check_models(
    config: ModelServerConfig, current: Mapping[str, ModelConfig]
) -> dict[str, ModelConfig]:
    """Returns the models of a configuration by name, checked against the current ones.

    Raises:
        ServingError: INVALID_ARGUMENT if it cannot be served.
    """
    if config.WhichOneof("config") != "model_config_list":
        raise invalid_argument(
            "ServerModelConfig type not supported by HandleReloadConfigRequest. Only "
            "ModelConfigList is currently supported"
        )
    models: dict[str, ModelConfig] = {}
    for model in config.model_config_list.config:
        if model.name in models:
            raise invalid_argument(
                f"Illegal to list model {model.name} multiple times in config list"
            )
        if not Path(model.base_path).is_absolute():
            raise invalid_argument(
                f"Expected model {model.name} to have an absolute path or URI; got "
                f"base_path()={model.base_path}"
            )
        if "\0" in model.base_path:
            raise invalid_argument(
                f"The base path of model {model.name} has a NUL character; got "
                f"base_path()={model.base_path!r}"
            )
        try:
            check_readable_by_tensorflow(
                model.base_path, f"The base path of model {model.name},"
            )
        except UserError as error:
            raise invalid_argument(str(error)) from error
        models[model.name] = model
    for name, model in models.items():
        _check_platform(name, model, current)
    return models


def _check_platform(
    name: str, model: ModelConfig, current: Mapping[str, ModelConfig]
) -> None:
    platform = _platform(model)
    before = _platform(current[name]) if name in current else platform
    if platform != before:
        raise invalid_argument(
            f"Illegal to change a model's platform. For model {name} platform was "
            f"{before} and new platform requested is {platform}"
        )
    if platform != "tensorflow":
        raise invalid_argument(f"Model {name} requests unsupported platform {platform}")


def _platform(model: ModelConfig) -> str:
    if model.model_type and model.model_platform:
        raise invalid_argument(
            "Illegal setting both ModelServerConfig::model_type (deprecated) and "
            "ModelServerConfig::model_platform."
        )
    if model.model_type:
        if model.model_type != 1:
            raise invalid_argument(
                f"ModelServerConfig::model_type choice {model.model_type} not "
                "supported."
            )
        return "tensorflow"
    if not model.model_platform:
        raise invalid_argument(
            "Illegal setting neither ModelServerConfig::model_type (deprecated) nor "
            "ModelServerConfig::model_platform."
        )
    return model.model_platform


def read_batching(path: str, num_batch_threads: int) -> BatchingOptions:
    """Returns the settings in a file of `BatchingParameters`; the defaults for "".

    Raises:
        UserError: If the file cannot be read, or the sizes do not fit one another.
    """
    parameters = empty_message("BatchingParameters")
    if path:
        read_text_proto(path, parameters)

    def value(name: str, default: int) -> int:
        number = (
            getattr(parameters, name).value if parameters.HasField(name) else default
        )
        # A timeout of 0 is legal: a batch does not wait.
        if number < (0 if name == "batch_timeout_micros" else 1):
            raise UserError(f"{path}: {name} must be positive. Received: {number}")
        return number

    request_size = value("max_batch_size", BatchingOptions.max_batch_size)
    split = parameters.enable_large_batch_splitting.value
    batch_size = value("max_execution_batch_size", request_size)
    if (batch_size != request_size and not split) or batch_size > request_size:
        raise UserError(
            f"{path}: max_execution_batch_size must be at most max_batch_size, and "
            "needs enable_large_batch_splitting { value: true }. Received: "
            f"{batch_size} with a max_batch_size of {request_size}"
        )
    sizes = tuple(parameters.allowed_batch_sizes)
    _check_allowed_sizes(path, sizes, batch_size)
    return BatchingOptions(
        max_batch_size=batch_size,
        batch_timeout_seconds=value("batch_timeout_micros", 0) / 1e6,
        max_enqueued_batches=value(
            "max_enqueued_batches", BatchingOptions.max_enqueued_batches
        ),
        num_batch_threads=value("num_batch_threads", num_batch_threads),
        allowed_batch_sizes=sizes,
        split=split,
        max_request_size=request_size,
    )


def _check_allowed_sizes(path: str, sizes: tuple[int, ...], batch_size: int) -> None:
    if any(size < 1 for size in sizes) or list(sizes) != sorted(set(sizes)):
        raise UserError(
            f"{path}: allowed_batch_sizes entries must be positive and increasing. "
            f"Received: {', '.join(map(str, sizes))}"
        )
    if sizes and sizes[-1] != batch_size:
        raise UserError(
            f"{path}: Last entry in allowed_batch_sizes must match the largest batch; "
            f"last entry was {sizes[-1]}; expected {batch_size}"
        )


def read_credentials(path: str) -> grpc.ServerCredentials:
    """Returns the keys in a file of TensorFlow Serving's type `SSLConfig`.

    Raises:
        UserError: If the file cannot be read, or its keys cannot be used.
    """
    config = read_text_proto(path, empty_message("SSLConfig"))
    if not config.server_key or not config.server_cert:
        raise UserError(f"{path}: server_key and server_cert are required.")
    credentials = grpc.ssl_server_credentials(
        [(config.server_key.encode(), config.server_cert.encode())],
        root_certificates=config.custom_ca.encode() or None,
        require_client_auth=config.client_verify,
    )
    # gRPC looks at keys only when it is to listen, and says nothing else of them then.
    probe = grpc.server(ThreadPoolExecutor(1))
    try:
        probe.add_secure_port("127.0.0.1:0", credentials)
    except RuntimeError as error:
        raise UserError(
            f"{path}: TLS cannot be started with these keys. server_key must be a "
            "private key (PEM), server_cert its certificate with those that signed it, "
            "and custom_ca certificates (PEM)."
        ) from error
    finally:
        probe.stop(None)
    return credentials


def read_metrics_path(path: str) -> str:
    """Returns the path of the metrics in a file of type `MonitoringConfig`; "" for off.

    Raises:
        UserError: If the file cannot be read.
    """
    prometheus = read_text_proto(
        path, empty_message("MonitoringConfig")
    ).prometheus_config
    if prometheus.path and not prometheus.path.startswith("/"):
        raise UserError(f"{path}: a path begins with /. Received: {prometheus.path}")
    return (prometheus.path or METRICS_PATH) if prometheus.enable else ""


def channel_arguments(text: str) -> list[tuple[str, int | str]]:
    """Returns gRPC's settings in "name=value,name=value"; digits are numbers.

    Raises:
        UserError: If one of them has no value.
    """
    arguments: list[tuple[str, int | str]] = []
    for item in filter(None, text.split(",")):
        name, equals, value = item.partition("=")
        if not equals:
            raise UserError(f"A channel argument is name=value. Received: {item}")
        number = value.removeprefix("-").isdecimal()
        arguments.append((name, int(value) if number else value))
    return arguments
