"""Several processes that train one model: who goes first, and whether they agree.

The chief writes everything; the others only read what it wrote, so all of them need
to see one model directory. With a single process nothing here does anything.
"""

import contextlib
import hashlib
import random
import re
import socket
import sys
import textwrap
from collections.abc import Iterator

import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.files.quiet import quiet_start_up
from t2t_keras.files.signals import preserve_handlers
from t2t_keras.settings.config import RESUMABLE, ExperimentConfig, TrainingConfig
from t2t_keras.settings.flags import flat
from t2t_keras.training.strategy import (
    build_strategy,
    is_chief,
    num_processes,
    num_workers,
    wait_for_all,
)

# Settings that may differ from run to run, but not from worker to worker: they
# decide when all of them have to do something together, and what.
_TOGETHER = frozenset(
    {
        "train_steps",
        "eval_steps",
        "max_tokens_per_replica",
        "jit_compile",
        "on_nonfinite",
    }
)

_OWN_PORTS = range(20_000, 32_768)

# What a process gets to hear whose partner in a collective is gone. Anything else is
# its own: no memory, a file that cannot be read, an operation that is not there.
_LOST_WORKER = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


def set_up_devices(config: TrainingConfig) -> tf.distribute.Strategy:
    """Returns where to train. To be called before TensorFlow computes anything.

    Raises:
        UserError: If there are not the devices, or not the cluster, that is asked for.
    """
    workers = num_workers()
    if config.strategy in (None, "multi_worker") and workers > 1:
        print(f"waiting for all {workers} workers …", file=sys.stderr, flush=True)
    try:
        # In a cluster, TensorFlow takes SIGTERM for itself and does nothing: a worker
        # that waits for another could only be killed.
        with preserve_handlers(), quiet_start_up():
            strategy = build_strategy(config.strategy, config.cpu_devices)
            tf.config.list_logical_devices()
    except tf.errors.OpError as error:
        if workers == 1:
            raise
        raise UserError(
            "The workers do not come together. See to it that nobody else has this "
            f"one's port, and that the others can be reached. {_in_its_words(error)}"
        ) from error
    tf.config.experimental.enable_tensor_float_32_execution(config.tf32)
    return strategy


@contextlib.contextmanager
def chief_first(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Lets the chief do something, and the others only when it has done it."""
    chief = is_chief(strategy)
    if not chief:
        wait_for_all(strategy)
    yield
    if chief:
        wait_for_all(strategy)


@contextlib.contextmanager
def stopping_together(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turns TensorFlow's word for a lost worker into one for people.

    What fails in this process itself stays as it is, for its traceback.

    Raises:
        UserError: If another worker is gone.
    """
    try:
        yield
    except _LOST_WORKER as error:
        if num_processes(strategy) == 1:
            raise
        raise UserError(
            "Another worker stopped, or cannot be reached any more, so this one stops "
            "too. Look at the others' last lines, and start all workers again with "
            "the same command: they go on from the newest checkpoint. "
            f"{_in_its_words(error)}"
        ) from error


def leave(strategy: tf.distribute.Strategy) -> None:
    """Waits for the others: nobody leaves while another may still ask after him.

    The chief, who comes last, has everything done, and minds no one who is gone.
    """
    try:
        wait_for_all(strategy)
    except _LOST_WORKER:
        if not is_chief(strategy):
            raise


def check_agreement(
    strategy: tf.distribute.Strategy,
    config: ExperimentConfig,
    first_step: int,
    *facts: object,
) -> None:
    """Raises `UserError` if the workers are not about to do the same.

    Args:
        strategy: Of all of them.
        config: The settings of this one.
        first_step: Updates made so far, as this one's checkpoint has it.
        *facts: What else has to be the same, as far as its `repr` goes.
    """
    settings = {
        name: value
        for name, value in flat(config).items()
        if name not in RESUMABLE or name in _TOGETHER
    }
    text = repr((sorted(settings.items()), first_step, facts))
    digest = hashlib.sha256(text.encode()).digest()
    if not wait_for_all(strategy, int.from_bytes(digest[:3], "big")):
        raise UserError(
            "The workers are not about to do the same: their settings, their training "
            f"text or their checkpoints differ. This one goes on from step "
            f"{first_step:,}. Give all of them the same flags, the same text, and one "
            "--model_dir that all of them see."
        )


def _in_its_words(error: tf.errors.OpError) -> str:
    """Returns what TensorFlow says, on one line and without names of graph nodes."""
    text = re.sub(r"{{.*?}}", "", error.message)
    short = textwrap.shorten(text, 300, placeholder=" …")
    return f"(TensorFlow's words for it are {type(error).__name__}: {short})"


def free_ports(count: int) -> list[int]:
    """Returns ports of this machine that nobody listens to now.

    They are below those that Linux, unless told otherwise, gives to whoever does not
    mind which, and that might be given away before they are listened to.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(_OWN_PORTS, len(_OWN_PORTS)):
        with socket.socket() as each, contextlib.suppress(OSError):
            each.bind(("localhost", port))
            found.append(port)
        if len(found) == count:
            return found
    raise UserError(
        f"There are no {count} free ports from {_OWN_PORTS[0]} to {_OWN_PORTS[-1]}."
    )
