"""Serves exports over gRPC as tensorflow_model_server does, for development and tests.

    python -m t2t_keras.serve --model_base_path=runs/tiny/export --model_name=translate
    python -m t2t_keras.serve --model_config_file=models.config --port=8500 \\
        --enable_batching --batching_parameters_file=batching.config

The services, the flags and the files are TensorFlow Serving's: whoever needs more
starts tensorflow_model_server with the same flags, and clients see no difference.
"""

import contextlib
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.files.signals import Interrupted, SignalWaiter
from t2t_keras.settings import program

# Kubernetes kills 30 seconds after SIGTERM unless told otherwise.
_GRACE_SECONDS = 25.0

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
_BASE_PATH = flags.DEFINE_string(
    "model_base_path", "", "Directory with a folder for each version of the model."
)
_NAME = flags.DEFINE_string("model_name", "default", "What clients call the model.")
_CONFIG_FILE = flags.DEFINE_string(
    "model_config_file",
    "",
    "A text ModelServerConfig, for several models, versions or labels. Instead of "
    "--model_base_path and --model_name.",
)
_CONFIG_POLL_SECONDS = flags.DEFINE_float(
    "model_config_file_poll_wait_seconds",
    0,
    "Seconds between two looks whether --model_config_file has changed; 0 for never.",
    lower_bound=0,
)
_PORT = flags.DEFINE_integer(
    "port",
    8500,
    "To listen at; 0 for any that is free.",
    lower_bound=0,
    upper_bound=65_535,
)
_HOST = flags.DEFINE_string(
    "host",
    "127.0.0.1",
    "Address to listen at; 0.0.0.0 for everybody who can reach this machine.",
)
_BATCHING = flags.DEFINE_bool(
    "enable_batching", False, "Join requests that come together to batches."
)
_BATCHING_FILE = flags.DEFINE_string(
    "batching_parameters_file", "", "A text BatchingParameters: sizes and times."
)
_MAX_THREADS = flags.DEFINE_integer(
    "grpc_max_threads",
    128,
    "Predict requests at a time; any more get RESOURCE_EXHAUSTED.",
    lower_bound=1,
)
_MAX_ROWS = flags.DEFINE_integer(
    "max_rows",
    1024,
    "Texts of a Predict request; one with more gets INVALID_ARGUMENT. With "
    "--enable_batching its max_batch_size, where that is more.",
    lower_bound=1,
)
_CHANNEL = flags.DEFINE_string(
    "grpc_channel_arguments",
    "",
    "gRPC's own settings, name=value with commas between them, such as "
    "grpc.max_receive_message_length=4194304, in bytes.",
)
_SSL_FILE = flags.DEFINE_string(
    "ssl_config_file", "", "A text SSLConfig: keys for TLS. Plain text if not given."
)
_HEALTH = flags.DEFINE_bool(
    "enable_grpc_healthcheck_service", False, "Answer grpc.health.v1.Health/Check."
)
_POLL_SECONDS = flags.DEFINE_float(
    "file_system_poll_wait_seconds",
    1,
    "Seconds between two looks for new versions; 0 looks once.",
    lower_bound=0,
)
_RETRIES = flags.DEFINE_integer(
    "max_num_load_retries", 5, "Of a version that cannot be loaded.", lower_bound=0
)
_RETRY_MICROS = flags.DEFINE_integer(
    "load_retry_interval_micros",
    60_000_000,
    "Microseconds between two attempts to load a version.",
    lower_bound=0,
)
_ANY_LABELS = flags.DEFINE_bool(
    "allow_version_labels_for_unavailable_models",
    False,
    "Let new labels name versions that are not loaded; a config file with labels "
    "needs it at the start.",
)
_WARM_UP = flags.DEFINE_bool(
    "enable_model_warmup", True, "Run the warm-up requests of each version."
)
_WARM_UP_ITERATIONS = flags.DEFINE_integer(
    "num_request_iterations_for_warmup", 1, "Of each warm-up request.", lower_bound=1
)
_XLA = flags.DEFINE_bool(
    "xla_cpu_compilation_enabled",
    False,
    "Let exports compile; without it, those made with --xla fail.",
)
_PARALLELISM = flags.DEFINE_integer(
    "tensorflow_session_parallelism",
    0,
    "Threads within and between ops; 0 for what fits the machine.",
    lower_bound=0,
)
_INTRA_OP = flags.DEFINE_integer(
    "tensorflow_intra_op_parallelism", 0, "Threads within an op.", lower_bound=0
)
_INTER_OP = flags.DEFINE_integer(
    "tensorflow_inter_op_parallelism",
    0,
    "Threads between ops; 0 for one for each core, and four at least.",
    lower_bound=0,
)


def main(_: Sequence[str]) -> int:
    """Serves until a signal comes, whose status the process then ends with."""
    from t2t_keras.serving.server.batching import BatchScheduler
    from t2t_keras.serving.server.config_watch import ConfigWatch
    from t2t_keras.serving.server.configs import read_batching
    from t2t_keras.serving.server.errors import ServingError
    from t2t_keras.serving.server.grpc_server import start_server
    from t2t_keras.serving.server.models import Models
    from t2t_keras.serving.server.session import disable_xla

    config, batching = _models_config(), None
    if _BATCHING.value:
        cores = len(os.sched_getaffinity(0))
        batching = read_batching(_BATCHING_FILE.value, cores)
    grpc_options = _grpc_options(batching)
    with contextlib.ExitStack() as at_the_end:
        scheduler = None
        if batching is not None:
            scheduler = BatchScheduler(batching)
            at_the_end.callback(scheduler.close)
        if not _XLA.value:
            disable_xla()
        models = Models(_loader(scheduler), _watch_options(), log=_say)
        at_the_end.callback(models.close)
        try:
            names = models.configure(config)
            models.start_watching()
            models.wait_until_available(names, patient=True)
        except ServingError as error:
            raise UserError(f"The server cannot start: {error.message}") from error
        if _CONFIG_FILE.value and _CONFIG_POLL_SECONDS.value:
            seconds = _CONFIG_POLL_SECONDS.value
            watch = ConfigWatch(_CONFIG_FILE.value, config, seconds, models, _say)
            at_the_end.callback(watch.close)
        server = start_server(models, grpc_options)
        signals = SignalWaiter()
        _say(f"serving {models.describe()} on port {server.port}")
        number = signals.wait()
        server.stop(_GRACE_SECONDS)
    print(Interrupted(number), file=sys.stderr, flush=True)
    # A thread of gRPC's, or of a version that was still being loaded, may be in native
    # code. Coming back when Python has ended, it would abort the process.
    os._exit(128 + number)


def _models_config():
    from t2t_keras.serving.server.configs import read_models, single_model

    if _CONFIG_FILE.value:
        return read_models(_CONFIG_FILE.value)
    return single_model(_NAME.value, os.path.abspath(_BASE_PATH.value))


def _grpc_options(batching):
    from t2t_keras.serving.server.configs import channel_arguments, read_credentials
    from t2t_keras.serving.server.grpc_server import GrpcOptions

    credentials = read_credentials(_SSL_FILE.value) if _SSL_FILE.value else None
    return GrpcOptions(
        host=_HOST.value,
        port=_PORT.value,
        max_running=_MAX_THREADS.value,
        max_rows=max(_MAX_ROWS.value, batching.max_request_size if batching else 0),
        credentials=credentials,
        channel_arguments=channel_arguments(_CHANNEL.value),
        health=_HEALTH.value,
    )


def _loader(scheduler):
    from t2t_keras.serving.server.loading import Loader
    from t2t_keras.serving.server.session import session_config

    config = session_config(
        intra_op=_INTRA_OP.value or _PARALLELISM.value,
        inter_op=_INTER_OP.value or _PARALLELISM.value,
    )
    iterations = _WARM_UP_ITERATIONS.value if _WARM_UP.value else 0
    return Loader(config, scheduler, iterations)


def _watch_options():
    from t2t_keras.serving.server.models import WatchOptions
    from t2t_keras.serving.server.versions import Retries

    return WatchOptions(
        _POLL_SECONDS.value,
        Retries(_RETRIES.value, _RETRY_MICROS.value / 1e6),
        _ANY_LABELS.value,
    )


def _say(line: str) -> None:
    # Whoever read the lines may have left; that must not end a thread.
    with contextlib.suppress(BrokenPipeError):
        print(line, flush=True)


def _start(arguments: Sequence[str]) -> None:
    """Says that something happens, if the flags are right.

    Raises:
        UserError: If they are wrong or do not go together.
    """
    if arguments:
        path = _exports_of(Path(arguments[0]))
        raise UserError(
            f"Arguments are given as flags. Received: {' '.join(arguments)}. "
            f"Do you mean --model_base_path={_quoted(path)}?"
        )
    if bool(_BASE_PATH.value) == bool(_CONFIG_FILE.value):
        raise UserError(
            "Give --model_base_path, for one model, or else --model_config_file."
        )
    if _BATCHING_FILE.value and not _BATCHING.value:
        raise UserError("--batching_parameters_file needs --enable_batching.")
    if _BASE_PATH.value:
        _check_base_path(Path(_BASE_PATH.value).absolute())
    _say("starting …")


def _check_base_path(path: Path) -> None:
    if not path.is_dir():
        raise UserError(
            f"There is no directory {path} to serve from (--model_base_path). "
            "python -m t2t_keras.export makes one."
        )
    exports = _exports_of(path)
    if exports != path:
        advice = f"Its exports are served with --model_base_path={_quoted(exports)}"
        if not exports.is_dir():
            command = f"python -m t2t_keras.export --model_dir={_quoted(path)}"
            advice = f"{command} makes an export"
        raise UserError(f"{path} is the directory of a training run. {advice}.")


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _exports_of(path: Path) -> Path:
    """Returns where the versions are: below a run's directory, or else in `path`."""
    return path / "export" if (path / "train.flags").is_file() else path


if __name__ == "__main__":
    program.run(main, __doc__ or "", _OWN, takes_arguments=True, check=_start)
