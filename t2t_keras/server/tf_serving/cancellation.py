"""Cancellation of requests: work stops when nobody waits for the answer any more.

TensorFlow can stop a step at a deadline or when one of its ops fails, and in no other
way. So a step has an op of its own that waits for a message in a queue and fails if it
is "stop". TensorFlow Serving finishes such steps.
"""

import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import grpc
import numpy as np
import tensorflow as tf

from t2t_keras.server.tf_serving.errors import (
    ServingError,
    cancelled,
    deadline_exceeded,
)
from t2t_keras.server.workers import CancelToken

_FINISHED, _STOP = 0, 1
_POLL_SECONDS = 0.05
# Behind the names of models: TensorFlow's errors number inputs in this order.
_SCOPE = "zz_cancellation"

Result = TypeVar("Result")
# Values of placeholders.
Feeds = Mapping[tf.Tensor, np.ndarray]
# Runs ops of a graph.
RunOps = Callable[[Sequence[tf.Operation], Feeds], object]


class StepCancellation:
    """Ops beside a model's graph that can stop its steps, one by one.

    Each step has a slot while it runs: a queue in the graph. Two ops run with the step.
    One waits for a message there and fails if it is "stop". The other sends "finished"
    after the step's outputs are computed, so that the first one ends as well.

    Args:
        graph: Graph of the model, before its first run.
        outputs: For each signature, its output tensors by name.
        slots: Steps that may run at a time; others wait.
    """

    def __init__(
        self,
        graph: tf.Graph,
        outputs: Sequence[Mapping[str, tf.Tensor]],
        slots: int,
    ):
        self._free: queue.LifoQueue[np.ndarray] = queue.LifoQueue()
        for slot in reversed(range(slots)):
            self._free.put(np.array(slot, np.int32))
        # Without a device, TensorFlow looks for one that has kernels for all of them.
        with graph.as_default(), tf.device("/cpu:0"), tf.name_scope(_SCOPE):
            handles = [
                tf.queue.FIFOQueue(2, [tf.int32], [()], shared_name=f"slot_{slot}")
                for slot in range(slots)
            ]
            self._slot = tf.compat.v1.placeholder(tf.int32, [], name="slot")
            self._zero = tf.compat.v1.placeholder(tf.int32, [], name="zero")
            handle = tf.gather(
                tf.stack([each.queue_ref for each in handles]), self._slot
            )
            self._stop = tf.compat.v1.placeholder(tf.bool, [], name="stop")
            self._control = _control(handle, self._stop)
            self._watched = tf.compat.v1.placeholder(tf.bool, [], name="watched")
            # If it is false, nothing that follows runs. TensorFlow takes that for a
            # step of the same kind, and has prepared its graph already.
            _, watched_handle = tf.raw_ops.Switch(data=handle, pred=self._watched)
            (message,) = tf.raw_ops.QueueDequeueV2(
                handle=watched_handle, component_types=[tf.int32]
            )
            watch = tf.raw_ops.Assert(
                condition=tf.equal(message, _FINISHED),
                data=[tf.constant("The request was canceled.")],
            )
            self._targets = [
                (frozenset(tensors), [watch, _finish(handle, self._zero, tensors)])
                for tensors in outputs
                if tensors
            ]

    def prepare(self, run_ops: RunOps) -> None:
        """Has TensorFlow prepare what stops a step, so that it is quick later."""
        self._run_control(run_ops, np.array(0, np.int32), stop=False)

    def targets(self, fetches: Sequence[str]) -> list[tf.Operation]:
        """Returns the ops to run with a step that fetches these tensors."""
        return next(ops for names, ops in self._targets if names.issuperset(fetches))

    def run(
        self,
        step: Callable[[Feeds], Result],
        run_ops: RunOps,
        cancel_token: CancelToken,
        timeout_seconds: float | None,
    ) -> Result:
        """Returns the result of a step, which stops if its request is canceled.

        Args:
            step: Runs the step with these feeds; called again to learn its error.
            run_ops: Runs ops in the session of the step, in the thread of the caller.
            cancel_token: Canceled if nobody waits for the step.
            timeout_seconds: Longest wait for a free slot; None for no limit.

        Raises:
            ServingError: CANCELLED, also in place of the error that the step has when
                it is stopped; DEADLINE_EXCEEDED if no slot was free in time.
        """
        slot = self._wait_for_slot(cancel_token, timeout_seconds)
        lock, running, clean = threading.Lock(), True, False

        def stop() -> None:
            with lock:
                if running:
                    self._run_control(run_ops, slot, stop=True)

        try:
            with cancel_token.calling(stop):
                try:
                    result = step(self._feeds(slot, watched=True))
                    clean = not cancel_token.cancelled
                except ServingError as error:
                    if cancel_token.cancelled or not _is_consequence(error):
                        raise
                    result = step(self._feeds(slot, watched=False))
            return result
        except ServingError:
            if cancel_token.cancelled:
                raise cancelled() from None
            raise
        finally:
            with lock:
                running = False
            # A session that was closed meanwhile has no more use for the slot.
            with contextlib.suppress(ServingError):
                if not clean:
                    self._run_control(run_ops, slot, stop=False)
                self._free.put(slot)

    def _feeds(self, slot: np.ndarray, watched: bool) -> Feeds:
        return {
            self._slot: slot,
            self._zero: np.array(0, np.int32),
            self._watched: np.array(watched),
        }

    def _run_control(self, run_ops: RunOps, slot: np.ndarray, stop: bool) -> None:
        run_ops(self._control, {self._slot: slot, self._stop: np.array(stop)})

    def _wait_for_slot(
        self, cancel_token: CancelToken, timeout_seconds: float | None
    ) -> np.ndarray:
        start = time.monotonic()
        while not cancel_token.cancelled:
            left = math.inf
            if timeout_seconds is not None:
                left = timeout_seconds - (time.monotonic() - start)
            if left <= 0:
                raise deadline_exceeded()
            with contextlib.suppress(queue.Empty):
                return self._free.get(timeout=min(left, _POLL_SECONDS))
        raise cancelled()


def _is_consequence(error: ServingError) -> bool:
    """Returns whether an error hides that of the model.

    If an op fails inside a function that is not inlined, TensorFlow first stops all
    ops that wait, and reports the first of these.
    """
    return error.code is grpc.StatusCode.CANCELLED and _SCOPE in error.message


def _finish(
    handle: tf.Tensor, zero: tf.Tensor, outputs: Mapping[str, tf.Tensor]
) -> tf.Operation:
    """Returns the op that sends "finished" after the outputs are computed.

    The message is made of their first values, times a zero that is fed. With a control
    dependency in their place, TensorFlow's optimizer would have it wait for the side
    effects of the model alone.
    """
    numbers = [tf.constant(0)]
    for tensor in outputs.values():
        first = tf.reshape(tensor, [-1])[:1]
        is_text = tensor.dtype == tf.string
        number = tf.strings.length(first) if is_text else tf.cast(first, tf.int32)
        numbers.append(tf.reduce_sum(number))
    message = _FINISHED + zero * tf.add_n(numbers)
    return tf.raw_ops.QueueEnqueueV2(handle=handle, components=[message])


def _control(handle: tf.Tensor, stop: tf.Tensor) -> list[tf.Operation]:
    """Returns ops that send "stop", or else empty the queue of what a step has left.

    That may be "finished", "stop", both or nothing. TensorFlow prepares its graph for
    each set of ops that is run, which takes as long as a small translation: so both are
    one set, with numbers of messages that may be 0.
    """
    zero = tf.constant(0)
    taken = tf.where(stop, zero, tf.raw_ops.QueueSizeV2(handle=handle))
    (messages,) = tf.raw_ops.QueueDequeueManyV2(
        handle=handle, n=taken, component_types=[tf.int32]
    )
    sent = tf.fill([tf.where(stop, 1, zero)], _STOP)
    return [
        messages.op,
        tf.raw_ops.QueueEnqueueManyV2(handle=handle, components=[sent]),
    ]
