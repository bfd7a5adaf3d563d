"""Trains to the end with JAX alone, in limited time, and saves averaged weights.

    python -m benchmarks.gpu.training.run --dir=DIR/NAME --out=DIR2 --seconds=90

Needs JAX, NumPy and this project's folder `benchmarks`. Losses are appended to
DIR2/results.jsonl as soon as they are known. The averaged weights are in
DIR2/NAME/weights-0.npz, weights-1.npz, ..., at most 16 MiB each.

After a kill the same command resumes from DIR2/NAME/state.npz, which is deleted at the
end. On a CPU the weights at the end are the same as without the kill, bit for bit. On a
GPU they are not: it adds the gradients of embeddings in random order.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.gpu.measure import describe
from benchmarks.gpu.results import OURS, RESULTS_FILE, Results
from benchmarks.gpu.training.files import (
    STATE_FILE,
    load_state,
    read_about,
    save_state,
    save_weights,
)
from benchmarks.gpu.training.folder import digest_of, load_training
from benchmarks.gpu.training.trainer import Trainer


def main(argv: Sequence[str] | None = None) -> None:
    """Trains until the last update, or until time is up.

    Raises:
        SystemExit: With a message, if the last update was not reached.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--dir", type=Path, required=True, help="Folder of the training.")
    add("--out", type=Path, required=True, help="Folder of the results.")
    add("--seconds", type=float, default=90.0, help="Most seconds of training.")
    add("--state_seconds", type=float, default=20.0, help="Seconds between states.")
    add("--platform", help="cpu, gpu or tpu. Default: JAX's choice.")
    args = parser.parse_args(argv)
    end, digest = load_training(args.dir).train_steps, digest_of(args.dir)
    name = args.dir.resolve().name
    folder = args.out / name
    done = read_about(folder) or {}
    if (done.get("digest"), done.get("step")) == (digest, end):
        print(f"{name}: all {end:,} updates are done already")
        return
    # Counts are int64, which JAX would otherwise convert to int32.
    jax.config.update("jax_enable_x64", True)
    device = jax.devices(args.platform)[0]
    jax.config.update("jax_default_device", device)
    results = Results(args.out / RESULTS_FILE, program=name, by=OURS)
    state = load_state(folder / STATE_FILE, digest)
    trainer = Trainer(args.dir, device)
    results.add(**_describe(trainer, device))
    trainer.start(state or trainer.first_state())
    step = _train(trainer, results, args, folder / STATE_FILE, digest)
    about = {"digest": digest, "device": device.device_kind, "jax": jax.__version__}
    _finish(trainer, results, folder, about)
    if step < end:
        raise SystemExit(
            f"{name} stopped after {step:,} of {end:,} updates, for "
            f"--seconds={args.seconds:g} were over: the learning rate is not at the "
            "end of its schedule. The same command with more seconds continues."
        )


def _describe(trainer: Trainer, device: jax.Device) -> dict[str, Any]:
    manifest, training = trainer.manifest, trainer.training
    return {
        **describe(manifest),
        "kind": "training",
        "seed": training.seed,
        "train_steps": training.train_steps,
        "updates_per_run": training.updates_per_run,
        "epochs": training.epochs,
        "device": device.device_kind,
        "versions": {"jax": jax.__version__, "tensorflow": manifest.tensorflow},
        "compile_seconds": trainer.compile_seconds,
        "planned_gigabytes": trainer.planned_gigabytes,
    }


def _train(
    trainer: Trainer,
    results: Results,
    args: argparse.Namespace,
    state_file: Path,
    digest: str,
) -> int:
    """Trains until the last update or the last second; returns the number of updates.

    Raises:
        SystemExit: If a loss or a gradient is not finite.
    """
    training = trainer.training
    saved_at = trainer.seconds
    for step in trainer.advance():
        last = step == training.train_steps
        over = not last and trainer.seconds > args.seconds
        figures: dict[str, float] = {}
        if last or over or step % training.log_steps == 0:
            figures = trainer.read()
        if last or step % training.save_steps == 0:
            trainer.save()
        if last or over or step % training.eval_steps == 0:
            figures["dev_loss"] = trainer.dev_loss()
        if figures:
            _record(results, step, trainer.seconds, figures)
            if over or trainer.seconds - saved_at >= args.state_seconds:
                save_state(state_file, trainer.state(), digest)
                saved_at = trainer.seconds
        if over:
            break
    return trainer.step


def _record(
    results: Results, step: int, seconds: float, figures: dict[str, float]
) -> None:
    """Writes and prints what is known after a number of updates.

    Raises:
        SystemExit: If a loss or a gradient is not finite.
    """
    results.add(step=step, seconds=seconds, **figures)
    parts = [f"{name} {value:,.4g}" for name, value in figures.items()]
    print(f"update {step:,}: {', '.join(parts)}, {seconds:.1f} s", flush=True)
    if not all(map(math.isfinite, figures.values())):
        raise SystemExit(
            f"Loss and gradient must be finite. Received until update {step:,}: "
            f"{figures}. Write the training with a lower --learning_rate."
        )


def _finish(
    trainer: Trainer, results: Results, folder: Path, about: dict[str, Any]
) -> None:
    """Averages the last saved weights, evaluates and writes them."""
    training, step = trainer.training, trainer.step
    seconds = trainer.seconds
    saved = {**trainer.saved, step: trainer.saved.get(step) or trainer.weights()}
    steps = sorted(saved)[-training.average_checkpoints :]
    means = {
        name: np.mean([saved[each][name] for each in steps], axis=0, dtype="float64")
        for name in saved[step]
    }
    weights = {name: mean.astype("float32") for name, mean in means.items()}
    figures = {
        "step": step,
        "finished": step == training.train_steps,
        "seconds": seconds,
        "averaged": steps,
        "averaged_dev_loss": trainer.dev_loss(weights),
    }
    ordered = [weights[name] for name in trainer.weight_names]
    save_weights(folder, ordered, {**about, **figures})
    results.add(**figures)
    print(f"average of updates {steps}: dev loss {figures['averaged_dev_loss']:.4f}")
    if figures["finished"]:
        (folder / STATE_FILE).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
