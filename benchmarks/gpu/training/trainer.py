"""Training loop of a program on a device of JAX.

The host runs ahead of the device: it starts run after run without waiting, and reads
sums only where a record is due. A thread makes the next batches meanwhile.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np

from benchmarks.gpu.executable import Executable
from benchmarks.gpu.initial_values import draw_for_seed
from benchmarks.gpu.manifest import INPUTS_FILE, load_manifest, load_program_text
from benchmarks.gpu.measure import Runner
from benchmarks.gpu.training.files import State
from benchmarks.gpu.training.folder import (
    BATCHES_FILE,
    DEV_LOSS_FOLDER,
    PAIRS_FILE,
    UPDATE_FOLDER,
    data_folder,
    load_training,
)
from benchmarks.gpu.training.packed_batches import PackedBatches

# Runs of the program whose batches are made at a time.
_RUNS_PER_CHUNK = 32
# Runs that are started before one of them has ended: with more, the time that is up
# would be noticed late.
_RUNS_AHEAD = 2

Arrays = dict[str, np.ndarray]


class Trainer:
    """Training of a folder, compiled for a device. Call `start` before anything else.

    Args:
        folder: Folder of the training; that of its data is beside it.
        device: The device.

    Attributes:
        training: Settings of the training.
        manifest: Manifest of the program of its updates.
        compile_seconds: Seconds that XLA took for both programs.
        planned_gigabytes: Peak memory of the updates, as XLA planned it.
        weight_names: Names of the weights, in their order in files.
        step: Number of updates that were started.
        saved: The last weights to average, by step.
    """

    def __init__(self, folder: Path, device: jax.Device):
        self.training = load_training(folder)
        data = data_folder(folder, self.training)
        folders = folder / UPDATE_FOLDER, data / DEV_LOSS_FOLDER
        self.manifest, self._dev_manifest = map(load_manifest, folders)
        start = time.perf_counter()
        self._update, self._evaluation = (
            Executable(load_program_text(each), device) for each in folders
        )
        self.compile_seconds = time.perf_counter() - start
        self.planned_gigabytes = self._update.planned_bytes() / 1e9
        manifest = self.manifest
        self._batches = PackedBatches(
            dict(np.load(data / PAIRS_FILE)),
            dict(np.load(folder / BATCHES_FILE)),
            (manifest.rows, manifest.source_length, manifest.target_length),
        )
        self._dev_set = dict(np.load(data / DEV_LOSS_FOLDER / INPUTS_FILE))
        self.weight_names = [
            one.name for one in self._dev_manifest.arguments if one.is_state
        ]

    def first_state(self) -> State:
        """Returns the state before the first update."""
        states = [one for one in self.manifest.arguments if one.is_state]
        seed = self.training.seed
        return State(0, 0.0, {one.name: draw_for_seed(one, seed) for one in states}, {})

    def start(self, state: State) -> None:
        """Puts a state on the device; the seconds of training count from now on."""
        self.step, self.saved = state.step, dict(state.saved)
        self._unread: list[dict[str, jax.Array]] = []
        self._updates, self._dev_loss = (
            Runner(
                executable,
                manifest,
                [
                    jax.device_put(values[one.name]) if one.name in values else None
                    for one in manifest.arguments
                ],
            )
            for executable, manifest, values in (
                (self._update, self.manifest, state.values),
                (self._evaluation, self._dev_manifest, self._dev_set),
            )
        )
        self._began = time.perf_counter() - state.seconds

    def advance(self) -> Iterator[int]:
        """Starts run after run; yields the number of updates so far after each."""
        for features in self._features():
            outputs = self._updates.run(jax.device_put(features))
            self._unread.append(dict(outputs))
            jax.block_until_ready(self._unread[-_RUNS_AHEAD - 1 : -_RUNS_AHEAD])
            self.step += self.training.updates_per_run
            yield self.step

    def _features(self) -> Iterator[Arrays]:
        """Yields the features of each run from the current step on."""
        size = self.training.updates_per_run
        chunk = size * _RUNS_PER_CHUNK
        last = self.training.train_steps

        def make(first: int) -> Arrays:
            return self._batches.features(first, min(chunk, last - first))

        with ThreadPoolExecutor(1) as pool:
            starts = range(self.step, last, chunk)
            made = [pool.submit(make, first) for first in starts[:1]]
            for first in starts:
                features = made.pop().result()
                if first + chunk < last:
                    made.append(pool.submit(make, first + chunk))
                for begin in range(0, min(chunk, last - first), size):
                    yield {
                        name: array[begin : begin + size]
                        for name, array in features.items()
                    }

    @property
    def seconds(self) -> float:
        """Seconds of training so far, with all that was done between updates."""
        return time.perf_counter() - self._began

    def read(self) -> dict[str, float]:
        """Returns means over the updates since the last call, after waiting for them.

        "loss" and "log_loss" are per token, "tokens" and "gradient_norm" per update.
        """
        parts = jax.device_get(self._unread)
        self._unread = []
        sums = {
            name: np.concatenate([part[name] for part in parts]).astype("float64")
            for name in parts[0]
        }
        tokens = sums["token_count"].sum()
        return {
            "loss": float(sums["loss_sum"].sum() / tokens),
            "log_loss": float(sums["log_loss_sum"].sum() / tokens),
            "gradient_norm": float(sums["gradient_norm"].mean()),
            "tokens": float(tokens / len(sums["token_count"])),
        }

    def dev_loss(self, weights: Mapping[str, np.ndarray] | None = None) -> float:
        """Returns the loss of the dev set per token, without dropout and smoothing.

        Args:
            weights: Weights by name. Default: the current ones.
        """
        values = self._updates.state() if weights is None else weights
        given = {name: jax.device_put(values[name]) for name in self.weight_names}
        sums = jax.device_get(self._dev_loss.run(given))
        loss, tokens = (
            sums[name].sum(dtype="float64") for name in ("log_loss_sum", "token_count")
        )
        return float(loss / tokens)

    def weights(self) -> Arrays:
        """Returns a copy of the current weights by name."""
        values = self._updates.state()
        return _copy({name: values[name] for name in self.weight_names})

    def save(self) -> None:
        """Saves the current weights to be averaged, and forgets the oldest."""
        self.saved[self.step] = self.weights()
        for step in sorted(self.saved)[: -self.training.average_checkpoints]:
            del self.saved[step]

    def state(self) -> State:
        """Returns the current state, after waiting for it."""
        values = _copy(self._updates.state())
        return State(self.step, self.seconds, values, self.saved)


def _copy(values: Mapping[str, jax.Array]) -> Arrays:
    """Returns values of their own: on a CPU, JAX would share the device's memory."""
    return {name: np.array(each) for name, each in jax.device_get(dict(values)).items()}
