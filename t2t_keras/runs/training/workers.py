"""Coordination of several processes that train one model.

The chief writes all files and the others read them, so all of them need
access to one model directory. With a single process, nothing here has an effect.
"""

import contextlib
import hashlib
import logging
import random
import re
import socket
import textwrap
from collections.abc import Iterator

import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.files.quiet import quiet_start_up
from t2t_keras.files.signals import preserve_handlers
from t2t_keras.settings.config import ExperimentConfig, settings_of_workers
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.training.strategy import (
    build_strategy,
    is_chief,
    num_processes,
    num_workers,
    wait_for_all,
)

logger = logging.getLogger(__name__)

_PORTS = range(20_000, 32_768)

# Errors of a collective operation when another worker is lost. Other errors have a
# cause in this process: out of memory, an unreadable file, a missing operation.
_LOST_WORKER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


def set_up_devices(config: TrainingConfig) -> tf.distribute.Strategy:
    """Returns the strategy to train with. Call it before TensorFlow computes anything.

    Raises:
        UserError: If the requested devices or the cluster are not available.
    """
    workers = num_workers()
    if config.strategy in (None, "multi_worker") and workers > 1:
        logger.info(f"waiting for all {workers} workers …")
    try:
        # In a cluster, TensorFlow installs its own SIGTERM handler, which does nothing:
        # a worker that waits for another could only be killed.
        with preserve_handlers(), quiet_start_up():
            strategy = build_strategy(config.strategy, config.cpu_devices)
            tf.config.list_logical_devices()
    except tf.errors.OpError as error:
        if workers == 1:
            raise
        raise UserError(
            "The workers cannot connect to each other. Make sure that no other process "
            "uses this worker's port, and that the other workers can be reached. "
            f"{_shorten_message(error)}"
        ) from error
    tf.config.experimental.enable_tensor_float_32_execution(config.tf32)
    return strategy


@contextlib.contextmanager
def restore_tf32() -> Iterator[None]:
    """Restores TensorFloat-32 for the rest of the caller's program after a block."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)


@contextlib.contextmanager
def chief_first(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Runs a `with` block on the chief first, then on the other workers."""
    chief = is_chief(strategy)
    if not chief:
        wait_for_all(strategy)
    yield
    if chief:
        wait_for_all(strategy)


@contextlib.contextmanager
def explain_lost_worker(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turns TensorFlow's error for a lost worker into a readable one.

    Errors of this process itself pass through unchanged, with their traceback.

    Raises:
        UserError: If another worker is lost.
    """
    try:
        yield
    except _LOST_WORKER_ERRORS as error:
        if num_processes(strategy) == 1:
            raise
        raise UserError(
            "Another worker stopped or can no longer be reached, so this one stops "
            "too. Look at the last lines of the other workers, and start all workers "
            "again with the same command: they resume from the newest checkpoint. "
            f"{_shorten_message(error)}"
        ) from error


def wait_to_leave(strategy: tf.distribute.Strategy) -> None:
    """Waits for all workers, since TensorFlow expects each to respond until the end.

    The chief arrives last. Its work is done, so it ignores workers that are lost.
    """
    try:
        wait_for_all(strategy)
    except _LOST_WORKER_ERRORS:
        if not is_chief(strategy):
            raise


def check_agreement(
    strategy: tf.distribute.Strategy,
    config: ExperimentConfig,
    first_step: int,
    *values: object,
) -> None:
    """Raises `UserError` if the workers differ in settings, step or other values.

    Args:
        strategy: Strategy of the cluster.
        config: Settings of this worker.
        first_step: Number of updates at this worker's checkpoint.
        *values: Other values whose `repr` must be the same in all workers.
    """
    settings = settings_of_workers(config)
    text = repr((sorted(settings.items()), first_step, values))
    digest = hashlib.sha256(text.encode()).digest()
    if not wait_for_all(strategy, int.from_bytes(digest[:3], "big")):
        raise UserError(
            "The workers do not agree: their settings, training text or checkpoints "
            f"differ. This one starts from step {first_step:,}. Give all of them the "
            "same flags, the same text, and one --model_dir that all of them can read."
        )


def _shorten_message(error: tf.errors.OpError) -> str:
    """Returns TensorFlow's message on one line, without names of graph nodes."""
    text = re.sub(r"{{.*?}}", "", error.message)
    short = textwrap.shorten(text, 300, placeholder=" …")
    return f"(TensorFlow reports {type(error).__name__}: {short})"


def free_ports(count: int) -> list[int]:
    """Returns ports of this machine that are free now.

    They are below Linux' default range of ephemeral ports, which the system could give
    to another process before the worker listens.
    """
    ports: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as each, contextlib.suppress(OSError):
            each.bind(("localhost", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise UserError(
        f"{count} free ports are needed, but {_PORTS[0]} to {_PORTS[-1]} have only "
        f"{len(ports)}. Stop other processes that listen there."
    )
