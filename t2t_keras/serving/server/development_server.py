"""Development server: a gRPC server of exported models, built from its settings.

    settings = ServerSettings(model_base_path="runs/tiny/export", port=0)
    with running_server(settings, log=print) as server:
        print(server.port)

`serve_until_signal` is the same for a program.
"""

import contextlib
import os
from collections.abc import Iterator

from t2t_keras.errors import UserError
from t2t_keras.files.signals import SignalWaiter
from t2t_keras.serving.server.batching import BatchingOptions, BatchScheduler
from t2t_keras.serving.server.config_watch import ConfigWatch
from t2t_keras.serving.server.configs import (
    ModelServerConfig,
    channel_arguments,
    read_batching,
    read_credentials,
    read_models,
    single_model,
)
from t2t_keras.serving.server.errors import ServingError
from t2t_keras.serving.server.grpc_server import (
    GrpcOptions,
    RunningServer,
    start_server,
)
from t2t_keras.serving.server.loading import Loader
from t2t_keras.serving.server.models import Models, WatchOptions
from t2t_keras.serving.server.session import disable_xla, session_config
from t2t_keras.serving.server.settings import ServerSettings
from t2t_keras.serving.server.versions import Log, Retries

# By default Kubernetes kills 30 seconds after SIGTERM.
_GRACE_SECONDS = 25.0


@contextlib.contextmanager
def running_server(settings: ServerSettings, log: Log) -> Iterator[RunningServer]:
    """Yields a server that answers; drains it and unloads its models at the end.

    Args:
        settings: Models, port and limits.
        log: Called with a line for each version loaded, unloaded or failed.

    Raises:
        UserError: If a file cannot be used, no version of a model can be loaded, or
            the port is taken.
    """
    config, batching = _models_config(settings), None
    if settings.enable_batching:
        cores = len(os.sched_getaffinity(0))
        batching = read_batching(settings.batching_parameters_file, cores)
    grpc_options = _grpc_options(settings, batching)
    with contextlib.ExitStack() as stack:
        scheduler = None
        if batching is not None:
            scheduler = BatchScheduler(batching)
            stack.callback(scheduler.close)
        if not settings.xla_cpu_compilation_enabled:
            disable_xla()
        models = Models(_loader(settings, scheduler), _watch_options(settings), log=log)
        stack.callback(models.close)
        try:
            names = models.configure(config)
            models.start_watching()
            models.wait_until_available(names, patient=True)
        except ServingError as error:
            raise UserError(f"The server cannot start: {error.message}") from error
        seconds = settings.model_config_file_poll_wait_seconds
        if settings.model_config_file and seconds:
            path = settings.model_config_file
            watch = ConfigWatch(path, config, seconds, models, log)
            stack.callback(watch.close)
        server = start_server(models, grpc_options)
        stack.callback(server.stop, _GRACE_SECONDS)
        yield server


def serve_until_signal(settings: ServerSettings, log: Log) -> int:
    """Serves until SIGINT or SIGTERM; returns the signal's number.

    To be called in the main thread. Arguments and errors are those of
    `running_server`.
    """
    with running_server(settings, log) as server:
        signals = SignalWaiter()
        log(f"serving {server.models.describe()} on port {server.port}")
        return signals.wait()


def _models_config(settings: ServerSettings) -> ModelServerConfig:
    if settings.model_config_file:
        return read_models(settings.model_config_file)
    path = os.path.abspath(settings.model_base_path)
    return single_model(settings.model_name, path)


def _grpc_options(
    settings: ServerSettings, batching: BatchingOptions | None
) -> GrpcOptions:
    most = batching.max_request_size if batching else 0
    path = settings.ssl_config_file
    return GrpcOptions(
        host=settings.host,
        port=settings.port,
        max_running=settings.grpc_max_threads,
        max_rows=max(settings.max_rows, most),
        credentials=read_credentials(path) if path else None,
        channel_arguments=channel_arguments(settings.grpc_channel_arguments),
        health=settings.enable_grpc_healthcheck_service,
    )


def _loader(settings: ServerSettings, scheduler: BatchScheduler | None) -> Loader:
    parallelism = settings.tensorflow_session_parallelism
    config = session_config(
        intra_op=settings.tensorflow_intra_op_parallelism or parallelism,
        inter_op=settings.tensorflow_inter_op_parallelism or parallelism,
    )
    iterations = settings.num_request_iterations_for_warmup
    return Loader(config, scheduler, iterations if settings.enable_model_warmup else 0)


def _watch_options(settings: ServerSettings) -> WatchOptions:
    retries = Retries(
        settings.max_num_load_retries, settings.load_retry_interval_micros / 1e6
    )
    return WatchOptions(
        settings.file_system_poll_wait_seconds,
        retries,
        settings.allow_version_labels_for_unavailable_models,
    )
