"""Development server: a gRPC server of exported models, built from its settings.

    settings = ServerSettings(model_base_path="runs/tiny/export", port=0)
    with running_server(settings) as server:
        print(server.port)

`serve_until_signal` is the same for a program.
"""

import contextlib
import dataclasses
import functools
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from anyio.from_thread import start_blocking_portal

from t2t_keras.errors import UserError
from t2t_keras.files import descriptors
from t2t_keras.files.signals import SignalWaiter
from t2t_keras.server.http.server import HttpServer, check_address
from t2t_keras.server.tf_serving.batching import BatchScheduler
from t2t_keras.server.tf_serving.configs import (
    ModelServerConfig,
    channel_arguments,
    read_batching,
    read_credentials,
    read_metrics_path,
    read_models,
    single_model,
)
from t2t_keras.server.tf_serving.core import ServerCore
from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.tf_serving.grpc_server import GrpcOptions, GrpcServer
from t2t_keras.server.tf_serving.health import HealthService
from t2t_keras.server.tf_serving.loading import Loader
from t2t_keras.server.tf_serving.metrics import Metrics
from t2t_keras.server.tf_serving.models import Models, WatchOptions
from t2t_keras.server.tf_serving.rest_api import RestOptions, rest_app
from t2t_keras.server.tf_serving.session import session_config
from t2t_keras.server.tf_serving.settings import ServerSettings
from t2t_keras.server.tf_serving.tensors import to_array, to_proto
from t2t_keras.server.tf_serving.versions import Retries
from t2t_keras.server.tf_serving.watching import Watch, describe_error
from t2t_keras.server.translation_api.runner import (
    describe_translation_api,
    running_translation_api,
)
from t2t_keras.server.translation_api.settings import (
    TranslationApiFlags,
    TranslationApiSettings,
)
from t2t_keras.server.workers import Workers

logger = logging.getLogger(__name__)

# By default Kubernetes kills 30 seconds after SIGTERM.
_GRACE_SECONDS = 25.0
# After that nobody waits for an answer.
_CLOSE_SECONDS = 1.0
# A year is as good as no limit, and no clock overflows that it is added to.
_NO_LIMIT_SECONDS = 365 * 24 * 60 * 60.0


@dataclass(frozen=True)
class RunningServer:
    """Server that answers.

    Attributes:
        models: Models that it serves.
        port: Port that it listens on for gRPC.
        others: Lines about its other ports.
    """

    models: Models
    port: int
    others: tuple[str, ...]


@contextlib.contextmanager
def running_server(
    settings: ServerSettings,
    translation_api: TranslationApiFlags | None = None,
) -> Iterator[RunningServer]:
    """Yields a server that answers; drains it and unloads its models at the end.

    While it drains, requests under way are finished, new ones are refused, and health
    checks report NOT_SERVING.

    Raises:
        UserError: If a file cannot be used, no version of a model can be loaded, or
            the port is taken.
    """
    config, batching = _models_config(settings), None
    if settings.enable_batching:
        cores = len(os.sched_getaffinity(0))
        batching = read_batching(settings.batching_parameters_file, cores)
    # Loading may take minutes; what is wrong here need not wait for it.
    for port in (settings.port, settings.rest_api_port):
        check_address(settings.host, port)
    with contextlib.ExitStack() as stack:
        api = None
        if translation_api is not None:
            # Over a socket of its own, whatever the settings of the port are.
            folder = stack.enter_context(tempfile.TemporaryDirectory("-t2t_keras"))
            paths = {
                each.name: each.base_path for each in config.model_config_list.config
            }
            flags = dataclasses.replace(translation_api, base_paths=paths)
            api = flags.complete(f"unix:{folder}/grpc")
            check_address(api.host, api.port)
        grpc_options = _grpc_options(settings, api)
        rest_options = _rest_options(settings)
        metrics, scheduler = Metrics(), None
        if batching is not None:
            scheduler = BatchScheduler(batching, metrics)
            stack.callback(scheduler.close)
        portal = stack.enter_context(start_blocking_portal())
        health = portal.call(HealthService)
        loader = _loader(settings, scheduler, metrics)
        models = Models(loader, _watch_options(settings))
        stack.callback(models.close, _CLOSE_SECONDS)
        _load_models(
            settings, config, models, stack, lambda: portal.call(health.stop_serving)
        )
        core = ServerCore(models, settings.max_rows, metrics)
        # TensorFlow opens a file at the first call in a thread. With no descriptor
        # left, a request would end the process.
        prepare = functools.partial(to_array, to_proto(np.zeros(1)))
        threads = settings.grpc_max_threads
        workers = portal.call(Workers, threads, 0, "workers", prepare)
        stack.callback(workers.close)

        def start(server: Any) -> int:
            stack.callback(portal.call, server.stop)
            return portal.call(server.start)

        port = start(portal.call(GrpcServer, core, workers, health, grpc_options))
        others = []
        if settings.rest_api_port:
            app = rest_app(core, workers, rest_options)
            rest = HttpServer(app, settings.host, settings.rest_api_port)
            others.append(f"REST API on port {start(rest)}")
        stack.callback(portal.call, workers.drain, _GRACE_SECONDS)
        if api is not None:
            api_port = stack.enter_context(running_translation_api(api))
            others.append(describe_translation_api(api, api_port))
        stack.callback(portal.call, health.stop_serving)
        stack.callback(core.stop_serving)
        yield RunningServer(models, port, tuple(others))


def _load_models(
    settings: ServerSettings,
    config: ModelServerConfig,
    models: Models,
    stack: contextlib.ExitStack,
    stop_serving: Callable[[], None],
) -> None:
    """Loads the models of a configuration, and starts to watch for changes."""

    def report_end() -> None:
        stop_serving()
        logger.error("restart the server: it cannot look for changes any more")

    try:
        names = models.configure(config, starting=True)
        models.start_watching(report_end)
        models.wait_until_available(names, patient=True)
    except ServingError as error:
        raise UserError(f"The server cannot start: {error.message}") from error
    path = settings.model_config_file
    seconds = settings.model_config_file_poll_wait_seconds
    if path and seconds:
        watch = watch_config(path, config, seconds, models, report_end)
        stack.callback(watch.close)


def serve_until_signal(
    settings: ServerSettings,
    translation_api: TranslationApiFlags | None = None,
) -> int:
    """Serves until a signal; returns its number.

    To be called in the main thread. Arguments and errors are those of
    `running_server`.
    """
    descriptors.allow_many()
    with running_server(settings, translation_api) as server:
        signals = SignalWaiter()
        for line in server.others:
            logger.info(line)
        logger.info(f"serving {server.models.describe()} on port {server.port}")
        return signals.wait()


def _models_config(settings: ServerSettings) -> ModelServerConfig:
    if settings.model_config_file:
        return read_models(settings.model_config_file)
    path = os.path.abspath(settings.model_base_path)
    return single_model(settings.model_name, path)


def _grpc_options(
    settings: ServerSettings, api: TranslationApiSettings | None
) -> GrpcOptions:
    path = settings.ssl_config_file
    return GrpcOptions(
        host=settings.host,
        port=settings.port,
        socket_paths=[settings.grpc_socket_path] if settings.grpc_socket_path else [],
        own_socket_path=api.server.removeprefix("unix:") if api is not None else "",
        credentials=read_credentials(path) if path else None,
        channel_arguments=channel_arguments(settings.grpc_channel_arguments),
        health=settings.enable_grpc_healthcheck_service,
        access_log=settings.access_log,
    )


def watch_config(
    path: str,
    used: ModelServerConfig,
    seconds: float,
    models: Models,
    on_end: Callable[[], None] = lambda: None,
) -> Watch:
    """Starts to apply the list of models in a file again and again.

    Every reading applies the whole list, as in TensorFlow Serving. It replaces a list
    that a client sent meanwhile, and a label that was refused because its version was
    still loading can be accepted the next time. A refusal is logged once.

    Args:
        path: File with a text `ModelServerConfig`.
        used: Content of the file when it was last applied.
        seconds: Seconds between two readings.
        models: Models of the server.
        on_end: Called if the thread ends before it is closed.
    """
    refused = False

    def look() -> None:
        nonlocal used, refused
        try:
            found = read_models(path)
            models.configure(found)
        except Exception as error:
            refused = True
            raise UserError(
                f"{path} was read again and not used: {describe_error(error)}"
            ) from error
        if refused or found != used:
            logger.info(f"{path} was read again")
        used, refused = found, False

    return Watch(look, seconds, on_end)


def _rest_options(settings: ServerSettings) -> RestOptions:
    path = settings.monitoring_config_file if settings.rest_api_port else ""
    milliseconds = settings.rest_api_timeout_in_ms
    return RestOptions(
        timeout_seconds=milliseconds / 1000 if milliseconds > 0 else _NO_LIMIT_SECONDS,
        max_body_bytes=settings.max_body_bytes,
        cors=settings.rest_api_enable_cors_support,
        metrics_path=read_metrics_path(path) if path else "",
        access_log=settings.access_log,
    )


def _loader(
    settings: ServerSettings, scheduler: BatchScheduler | None, metrics: Metrics
) -> Loader:
    parallelism = settings.tensorflow_session_parallelism
    config = session_config(
        intra_op=settings.tensorflow_intra_op_parallelism or parallelism,
        inter_op=settings.tensorflow_inter_op_parallelism or parallelism,
        file=settings.tensorflow_session_config_file,
        gpu_memory_fraction=settings.per_process_gpu_memory_fraction,
    )
    # 0 stands for the default in TensorFlow Serving, for none in the loader.
    iterations = max(settings.num_request_iterations_for_warmup, 1)
    return Loader(
        config,
        scheduler,
        iterations if settings.enable_model_warmup else 0,
        metrics,
        settings.saved_model_tags.split(","),
        settings.enable_per_model_batching_parameters,
        xla=settings.xla_cpu_compilation_enabled
        or settings.xla_gpu_compilation_enabled,
    )


def _watch_options(settings: ServerSettings) -> WatchOptions:
    retries = Retries(
        settings.max_num_load_retries,
        max(settings.load_retry_interval_micros, 0) / 1e6,
    )
    return WatchOptions(
        settings.file_system_poll_wait_seconds,
        retries,
        settings.allow_version_labels_for_unavailable_models,
    )
