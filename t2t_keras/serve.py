"""Serves exports over gRPC like tensorflow_model_server, for development and tests.

    python -m t2t_keras.serve --model_base_path=runs/tiny/export --model_name=translate
    python -m t2t_keras.serve --model_config_file=models.config --port=8500 \\
        --rest_api_port=8501 --enable_batching \\
        --batching_parameters_file=batching.config
    python -m t2t_keras.serve --server=tensorflow-serving:8500 \\
        --translation_api_port=5000 --language_pairs=translate:en:de

Services, flags and files are those of TensorFlow Serving. In production, start
tensorflow_model_server with the same flags; clients see no difference. The translation
API, LibreTranslate's interface, is for either server.
"""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from t2t_keras import __version__
from t2t_keras.errors import UserError, require_extra
from t2t_keras.files.signals import Interrupted
from t2t_keras.server.tf_serving.other_flags import (
    check_other_flags,
    define_other_flags,
)
from t2t_keras.server.tf_serving.settings import (
    ServerSettings,
    base_path_flag,
    exports_below,
)
from t2t_keras.server.translation_api.flags import (
    API_FLAGS,
    define_translation_api_flags,
    read_translation_api_flags,
)
from t2t_keras.settings import program

flags.DEFINE_string(
    "model_base_path",
    ServerSettings.model_base_path,
    "Directory of one model, with a folder for each version. Required, and used, only "
    "without --model_config_file.",
)
flags.DEFINE_string(
    "model_name", ServerSettings.model_name, "Name of the model in requests."
)
flags.DEFINE_string(
    "model_config_file",
    ServerSettings.model_config_file,
    "File with a text ModelServerConfig: several models, versions or labels. It "
    "replaces --model_base_path and --model_name.",
)
flags.DEFINE_float(
    "model_config_file_poll_wait_seconds",
    ServerSettings.model_config_file_poll_wait_seconds,
    "Seconds between two checks of --model_config_file for changes; 0 for never.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "port",
    ServerSettings.port,
    "Port to listen on; 0 for any free port.",
    lower_bound=0,
    upper_bound=65_535,
)
flags.DEFINE_string(
    "host",
    ServerSettings.host,
    "Address to listen on; 0.0.0.0 for all addresses of this machine, :: for those of "
    "IPv6 as well.",
)
flags.DEFINE_string(
    "grpc_socket_path",
    ServerSettings.grpc_socket_path,
    "Path of a Unix domain socket to listen on for gRPC as well.",
)
flags.DEFINE_integer(
    "rest_api_port",
    ServerSettings.rest_api_port,
    "Port of the REST API; 0 for none.",
    lower_bound=0,
    upper_bound=65_535,
)
flags.DEFINE_integer(
    "rest_api_timeout_in_ms",
    ServerSettings.rest_api_timeout_in_ms,
    "Longest time of a request over REST, and of the arrival of its body, in "
    "milliseconds; 0 or less for no limit.",
)
flags.DEFINE_bool(
    "rest_api_enable_cors_support",
    ServerSettings.rest_api_enable_cors_support,
    "Whether web pages of other hosts may use the REST API.",
)
flags.DEFINE_integer(
    "max_body_bytes",
    ServerSettings.max_body_bytes,
    "Largest body of a request over HTTP, in bytes.",
    lower_bound=1,
)
flags.DEFINE_string(
    "monitoring_config_file",
    ServerSettings.monitoring_config_file,
    "File with a text MonitoringConfig: metrics for Prometheus on the REST port. "
    "Ignored without --rest_api_port.",
)
flags.DEFINE_bool(
    "enable_batching",
    ServerSettings.enable_batching,
    "Whether requests that arrive together are joined into batches.",
)
flags.DEFINE_string(
    "batching_parameters_file",
    ServerSettings.batching_parameters_file,
    "File with a text BatchingParameters: sizes and timeouts of batches. "
    "Default: those of TensorFlow Serving.",
)
flags.DEFINE_bool(
    "enable_per_model_batching_parameters",
    ServerSettings.enable_per_model_batching_parameters,
    "Whether --enable_batching reads sizes and timeouts of batches from a file of each "
    "version, batching_params.pbtxt, and only the number of threads from "
    "--batching_parameters_file. A version without the file is not batched.",
)
flags.DEFINE_integer(
    "grpc_max_threads",
    ServerSettings.grpc_max_threads,
    "Maximum number of Predict requests at a time; others get RESOURCE_EXHAUSTED.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_rows",
    ServerSettings.max_rows,
    "Maximum number of texts in a Predict request; a request with more gets "
    "INVALID_ARGUMENT. With --enable_batching, max_batch_size of the batching "
    "parameters applies if it is larger.",
    lower_bound=1,
)
flags.DEFINE_string(
    "grpc_channel_arguments",
    ServerSettings.grpc_channel_arguments,
    "Settings of gRPC, comma-separated name=value, such as "
    "grpc.max_receive_message_length=4194304 (bytes).",
)
flags.DEFINE_string(
    "ssl_config_file",
    ServerSettings.ssl_config_file,
    "File with a text SSLConfig: keys for TLS. Default: connections without TLS.",
)
flags.DEFINE_bool(
    "enable_grpc_healthcheck_service",
    ServerSettings.enable_grpc_healthcheck_service,
    "Whether health checks are answered: grpc.health.v1.Health, Check and Watch.",
)
flags.DEFINE_float(
    "file_system_poll_wait_seconds",
    ServerSettings.file_system_poll_wait_seconds,
    "Seconds between two checks for new versions; 0 to check once, at the start.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "max_num_load_retries",
    ServerSettings.max_num_load_retries,
    "Maximum number of retries after a version failed to load.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "load_retry_interval_micros",
    ServerSettings.load_retry_interval_micros,
    "Microseconds between two attempts to load a version; 0 or less for no wait.",
)
flags.DEFINE_bool(
    "allow_version_labels_for_unavailable_models",
    ServerSettings.allow_version_labels_for_unavailable_models,
    "Whether a new label may name a version that is not loaded. Required to start "
    "with a --model_config_file that has labels.",
)
flags.DEFINE_bool(
    "enable_model_warmup",
    ServerSettings.enable_model_warmup,
    "Whether the warm-up requests of a version are run before it is served.",
)
flags.DEFINE_integer(
    "num_request_iterations_for_warmup",
    ServerSettings.num_request_iterations_for_warmup,
    "Number of times that each warm-up request is run; 1 also if it is less.",
)
flags.DEFINE_bool(
    "xla_cpu_compilation_enabled",
    ServerSettings.xla_cpu_compilation_enabled,
    "Whether XLA may compile. Without it, versions exported with --xla fail.",
)
flags.DEFINE_bool(
    "xla_gpu_compilation_enabled",
    ServerSettings.xla_gpu_compilation_enabled,
    "Does what --xla_cpu_compilation_enabled does, here for all devices.",
)
flags.DEFINE_string(
    "saved_model_tags",
    ServerSettings.saved_model_tags,
    "Comma-separated tags of the graph to load from a SavedModel.",
)
flags.DEFINE_string(
    "tensorflow_session_config_file",
    ServerSettings.tensorflow_session_config_file,
    "File with a text ConfigProto of TensorFlow's sessions. Flags for threads and "
    "memory override it.",
)
flags.DEFINE_float(
    "per_process_gpu_memory_fraction",
    ServerSettings.per_process_gpu_memory_fraction,
    "Share of a GPU's memory that is taken at the start, from 0 to 1; 0 to take it as "
    "needed.",
    lower_bound=0,
    upper_bound=1,
)
flags.DEFINE_integer(
    "tensorflow_session_parallelism",
    ServerSettings.tensorflow_session_parallelism,
    "Number of intra-op and inter-op threads; 0 for a choice that suits the machine.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "tensorflow_intra_op_parallelism",
    ServerSettings.tensorflow_intra_op_parallelism,
    "Number of intra-op threads; 0 for --tensorflow_session_parallelism.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "tensorflow_inter_op_parallelism",
    ServerSettings.tensorflow_inter_op_parallelism,
    "Number of requests that a model runs at a time, with a thread each; 0 for "
    "--tensorflow_session_parallelism or, if that is also 0, one for each core and at "
    "least 4.",
    lower_bound=0,
)
define_translation_api_flags()
_SETTINGS = tuple(field.name for field in dataclasses.fields(ServerSettings))
# What is left without meaning beside --server.
_OF_MODELS = tuple(
    name
    for name in _SETTINGS
    if name not in (*API_FLAGS, "model_name", "model_base_path")
)
_VERSION = flags.DEFINE_bool("version", False, "Whether to print the version and end.")
define_other_flags()


def main(_: Sequence[str]) -> int:
    """Serves until a signal arrives, then exits with the status of the signal."""
    api, server = read_translation_api_flags()
    if server:
        from t2t_keras.server.translation_api.runner import serve_translation_api

        number = serve_translation_api(api.complete(server), _log)
    else:
        from t2t_keras.server.tf_serving.development_server import serve_until_signal

        number = serve_until_signal(_settings(), _log, api)
    print(Interrupted(number), file=sys.stderr, flush=True)
    # A thread of gRPC, or of a version that is still loading, may be in native code. If
    # it returned after Python has ended, it would abort the process.
    os._exit(128 + number)


def _settings() -> ServerSettings:
    return ServerSettings(**program.flag_values(_SETTINGS))


def _log(line: str) -> None:
    # A closed standard output must not end a thread.
    with contextlib.suppress(BrokenPipeError):
        print(line, flush=True)


def _check(arguments: Sequence[str]) -> None:
    """Raises `UserError` if flags are invalid; else logs that the program starts."""
    if _VERSION.value:
        print(f"t2t_keras {__version__}")
        sys.exit(0)
    require_extra("t2t_keras.serve", "serve")
    if arguments:
        flag = base_path_flag(exports_below(Path(arguments[0])))
        raise UserError(
            f"Arguments are given as flags. Received: {' '.join(arguments)}. "
            f"Do you mean {flag}?"
        )
    api, server = read_translation_api_flags()
    if server:
        program.refuse_flags(_OF_MODELS, "is for models, which --server has.")
        api.complete(server)
    else:
        _settings().check_base_path()
    ignored = [] if server else _settings().ignored()
    for line in [*check_other_flags(), *ignored]:
        _log(line)
    _log("starting …")


if __name__ == "__main__":
    program.run(
        main,
        __doc__ or "",
        takes_arguments=True,
        with_tensorflow=lambda: not read_translation_api_flags()[1],
        check=_check,
    )
