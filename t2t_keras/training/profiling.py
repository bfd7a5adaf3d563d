"""Records a few updates for TensorBoard's profiler."""

import tensorflow as tf


class StepProfiler:
    """Starts TensorBoard's profiler before an update, and stops it after another.

    Used as a context, so that a run that ends in between leaves a whole profile.

    Args:
        steps: The updates to record; empty for none.
        log_dir: TensorBoard's folder.
    """

    def __init__(self, steps: range, log_dir: str):
        self._steps = steps
        self._log_dir = log_dir
        self._running = False

    def __enter__(self) -> "StepProfiler":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def before(self, step: int) -> None:
        """Starts recording if the next update is one of those asked for."""
        # Not only at the first of them: a run may go on from a later one.
        if step in self._steps and not self._running:
            tf.profiler.experimental.start(self._log_dir)
            self._running = True

    def after(self, step: int, result: object) -> None:
        """Stops recording if that was the last update asked for.

        Args:
            step: The update just made.
            result: Its tensors, which are waited for: what an accelerator has not
                done yet would be missing.
        """
        if self._running and step + 1 not in self._steps:
            for tensor in tf.nest.flatten(result):
                float(tensor)
            self._stop()

    def _stop(self) -> None:
        if self._running:
            self._running = False
            tf.profiler.experimental.stop()
