"""Serves exports over gRPC as tensorflow_model_server does, for development and tests.

    python -m t2t_keras.serve --model_base_path=runs/tiny/export --model_name=translate
    python -m t2t_keras.serve --model_config_file=models.config --port=8500 \\
        --enable_batching --batching_parameters_file=batching.config

The services, the flags and the files are TensorFlow Serving's: whoever needs more
starts tensorflow_model_server with the same flags, and clients see no difference.
"""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.files.signals import Interrupted
from t2t_keras.serving.server.settings import (
    ServerSettings,
    base_path_flag,
    exports_below,
)
from t2t_keras.settings import program

_OWN = (
    "model_base_path",
    "model_name",
    "model_config_file",
    "model_config_file_poll_wait_seconds",
    "port",
    "host",
    "enable_batching",
    "batching_parameters_file",
    "grpc_max_threads",
    "max_rows",
    "grpc_channel_arguments",
    "ssl_config_file",
    "enable_grpc_healthcheck_service",
    "file_system_poll_wait_seconds",
    "max_num_load_retries",
    "load_retry_interval_micros",
    "allow_version_labels_for_unavailable_models",
    "enable_model_warmup",
    "num_request_iterations_for_warmup",
    "xla_cpu_compilation_enabled",
    "tensorflow_session_parallelism",
    "tensorflow_intra_op_parallelism",
    "tensorflow_inter_op_parallelism",
)
flags.DEFINE_string(
    "model_base_path", "", "Directory with a folder for each version of the model."
)
flags.DEFINE_string("model_name", "default", "What clients call the model.")
flags.DEFINE_string(
    "model_config_file",
    "",
    "A text ModelServerConfig, for several models, versions or labels. Instead of "
    "--model_base_path and --model_name.",
)
flags.DEFINE_float(
    "model_config_file_poll_wait_seconds",
    0,
    "Seconds between two looks whether --model_config_file has changed; 0 for never.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "port",
    8500,
    "To listen at; 0 for any that is free.",
    lower_bound=0,
    upper_bound=65_535,
)
flags.DEFINE_string(
    "host",
    "127.0.0.1",
    "Address to listen at; 0.0.0.0 for everybody who can reach this machine.",
)
flags.DEFINE_bool(
    "enable_batching", False, "Join requests that come together to batches."
)
flags.DEFINE_string(
    "batching_parameters_file", "", "A text BatchingParameters: sizes and times."
)
flags.DEFINE_integer(
    "grpc_max_threads",
    128,
    "Predict requests at a time; any more get RESOURCE_EXHAUSTED.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_rows",
    1024,
    "Texts of a Predict request; one with more gets INVALID_ARGUMENT. With "
    "--enable_batching its max_batch_size, where that is more.",
    lower_bound=1,
)
flags.DEFINE_string(
    "grpc_channel_arguments",
    "",
    "gRPC's own settings, name=value with commas between them, such as "
    "grpc.max_receive_message_length=4194304, in bytes.",
)
flags.DEFINE_string(
    "ssl_config_file", "", "A text SSLConfig: keys for TLS. Plain text if not given."
)
flags.DEFINE_bool(
    "enable_grpc_healthcheck_service", False, "Answer grpc.health.v1.Health/Check."
)
flags.DEFINE_float(
    "file_system_poll_wait_seconds",
    1,
    "Seconds between two looks for new versions; 0 looks once.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "max_num_load_retries", 5, "Of a version that cannot be loaded.", lower_bound=0
)
flags.DEFINE_integer(
    "load_retry_interval_micros",
    60_000_000,
    "Microseconds between two attempts to load a version.",
    lower_bound=0,
)
flags.DEFINE_bool(
    "allow_version_labels_for_unavailable_models",
    False,
    "Let new labels name versions that are not loaded; a config file with labels "
    "needs it at the start.",
)
flags.DEFINE_bool(
    "enable_model_warmup", True, "Run the warm-up requests of each version."
)
flags.DEFINE_integer(
    "num_request_iterations_for_warmup", 1, "Of each warm-up request.", lower_bound=1
)
flags.DEFINE_bool(
    "xla_cpu_compilation_enabled",
    False,
    "Let exports compile; without it, those made with --xla fail.",
)
flags.DEFINE_integer(
    "tensorflow_session_parallelism",
    0,
    "Threads within and between ops; 0 for what fits the machine.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "tensorflow_intra_op_parallelism", 0, "Threads within an op.", lower_bound=0
)
flags.DEFINE_integer(
    "tensorflow_inter_op_parallelism",
    0,
    "Threads between ops; 0 for one for each core, and four at least.",
    lower_bound=0,
)


def main(_: Sequence[str]) -> int:
    """Serves until a signal comes, whose status the process then ends with."""
    from t2t_keras.serving.server.development_server import serve_until_signal

    number = serve_until_signal(_settings(), _log)
    print(Interrupted(number), file=sys.stderr, flush=True)
    # A thread of gRPC's, or of a version that was still being loaded, may be in native
    # code. Coming back when Python has ended, it would abort the process.
    os._exit(128 + number)


def _settings() -> ServerSettings:
    names = [field.name for field in dataclasses.fields(ServerSettings)]
    return ServerSettings(**{name: flags.FLAGS[name].value for name in names})


def _log(line: str) -> None:
    # The reader of the lines may have left; that must not end a thread.
    with contextlib.suppress(BrokenPipeError):
        print(line, flush=True)


def _check(arguments: Sequence[str]) -> None:
    """Raises `UserError` if flags are wrong; else reports that the program starts."""
    if arguments:
        flag = base_path_flag(exports_below(Path(arguments[0])))
        raise UserError(
            f"Arguments are given as flags. Received: {' '.join(arguments)}. "
            f"Do you mean {flag}?"
        )
    _settings().check_base_path()
    _log("starting …")


if __name__ == "__main__":
    program.run(main, __doc__ or "", _OWN, takes_arguments=True, check=_check)
