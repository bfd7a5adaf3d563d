"""Records what the programs of a checkout compute, to compare it with another's.

    git worktree add ../old COMMIT
    python -m benchmarks.equality.record --checkout=../old --output=old.npz
    python -m benchmarks.equality.record --checkout=. --output=new.npz
    python -m benchmarks.equality.compare old.npz new.npz

Of the checkout only programs, their flags and the files that they promise are used, so
that two commits may have nothing else in common. The text is the bundled grammar's.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.equality.cases import CASES, KILLED, SHORT, STEPS, Case
from benchmarks.equality.served import served_outputs
from t2t_keras.runs.workers import free_ports

# Values of metrics.jsonl that depend on the machine's speed.
_TIMED = re.compile("time$|_seconds$|_per_second$|utilization$")
Arrays = dict[str, np.ndarray]


class Checkout:
    """The programs of a checkout.

    Args:
        path: Of the checkout.
        folder: Where its runs are written.
        text: Folder of the text files, see `write_text`.
    """

    def __init__(self, path: Path, folder: Path, text: Path):
        self._path = path.resolve()
        self._folder = folder
        self._text = text

    def run_dir(self, name: str) -> Path:
        """Returns the model directory of a case."""
        return self._folder / name

    def start(
        self, program: str, *flags: str, variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts a program."""
        environment = {**os.environ, "PYTHONPATH": str(self._path), **(variables or {})}
        return subprocess.Popen(
            [sys.executable, "-m", f"t2t_keras.{program}", *flags],
            cwd=self._path,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, program: str, *flags: str, stdin: bytes = b"") -> str:
        """Returns the output of a program.

        Raises:
            RuntimeError: If it fails.
        """
        process = self.start(program, *flags)
        return output_of(process, stdin)

    def training_flags(self, case: Case) -> list[str]:
        """Returns the flags of `train` for a case."""
        target = "mrg" if case.trees else "de"
        files = []
        for split in ("train", "dev", "test"):
            if case.trees:
                files.append(f"--{split}_source={self._text / split}.mrg")
            else:
                files += [
                    f"--{split}_source={self._text / split}.en",
                    f"--{split}_target={self._text / split}.{target}",
                ]
        flags = [flag.format(text=self._text) for flag in case.flags]
        return [f"--model_dir={self.run_dir(case.name)}", *SHORT, *files, *flags]


def output_of(process: subprocess.Popen[bytes], stdin: bytes = b"") -> str:
    """Returns what a process prints, once it has ended.

    Raises:
        RuntimeError: If its status is not 0.
    """
    output, errors = process.communicate(stdin)
    if process.returncode:
        raise RuntimeError(f"{process.args}: {errors.decode()}")
    return output.decode()


def train(checkout: Checkout, case: Case) -> None:
    """Trains a case: in one process, in several, or killed and started again."""
    flags = checkout.training_flags(case)
    if case.workers == 1:
        if case.name == KILLED:
            _kill_midway(checkout, case, flags)
        checkout.run("train", *flags)
        return
    addresses = [f"localhost:{port}" for port in free_ports(case.workers)]
    started = []
    for index in range(case.workers):
        task = {"type": "worker", "index": index}
        cluster = {"cluster": {"worker": addresses}, "task": task}
        variables = {"TF_CONFIG": json.dumps(cluster)}
        started.append(checkout.start("train", *flags, variables=variables))
    for process in started:
        output_of(process)


def _kill_midway(checkout: Checkout, case: Case, flags: Sequence[str]) -> None:
    """Kills a run after half of its updates, which is between two checkpoints."""
    metrics = checkout.run_dir(case.name) / "metrics.jsonl"
    process = checkout.start("train", *flags)
    while process.poll() is None:
        lines = metrics.read_text().count("\n") if metrics.exists() else 0
        if lines > STEPS // 2:
            process.send_signal(signal.SIGKILL)
        time.sleep(0.01)
    process.communicate()
    if process.returncode != -signal.SIGKILL:
        raise RuntimeError(f"{case.name} ended before it was killed")


def trained_values(model_dir: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yields what a run has computed: curves, weights, translations, file names."""
    import tensorflow as tf

    lines = (model_dir / "metrics.jsonl").read_text().splitlines()
    for line in map(json.loads, lines):
        for name, value in line.items():
            if not _TIMED.search(name):
                yield f"{name} {line['step']}", np.array(value)
    for index in sorted(model_dir.glob("*/step-*/*.index")):
        reader = tf.train.load_checkpoint(str(index.with_suffix("")))
        place = index.parent.relative_to(model_dir)
        for key in reader.get_variable_to_shape_map():
            if key.endswith("VARIABLE_VALUE"):
                yield f"{place} {key}", _bits(reader.get_tensor(key))
    for path in sorted((model_dir / "translations").glob("*")):
        yield f"translations {path.name}", np.array(path.read_text())
    flags = (model_dir / "train.flags").read_text().splitlines()
    settings = [line for line in flags if line.startswith("--")]
    yield "settings", np.array([line for line in settings if "/" not in line])
    digest = re.compile(r"\d{6,}.*")
    names = {
        digest.sub("…", str(path.relative_to(model_dir)))
        for path in model_dir.rglob("*")
    }
    yield "files", np.array(sorted(names))


def _bits(value: np.ndarray) -> np.ndarray:
    """Returns float32 for types that only TensorFlow's NumPy knows."""
    return value.astype("float32") if value.dtype.name == "bfloat16" else value


def used_values(
    checkout: Checkout, model_dir: Path, sources: Sequence[str], targets: Sequence[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields what a trained model answers: programs, then signatures of exports."""
    text = "".join(f"{line}\n" for line in sources).encode()
    place = f"--model_dir={model_dir}"
    for name, flags in (
        ("beam 4", ["--n_best=3"]),
        ("greedy", ["--beam_size=1"]),
        ("alpha 1", ["--alpha=1", "--checkpoint=latest"]),
    ):
        told = checkout.run("translate", place, "--scores", *flags, stdin=text)
        yield f"translate {name}", np.array(told.splitlines())
    for path in sorted(model_dir.glob("export*/1")):
        outputs = served_outputs(path, sources[:100], targets[:100])
        for name, value in outputs.items():
            yield f"{path.parent.name} {name}", value


def write_text(folder: Path) -> tuple[list[str], list[str]]:
    """Writes the text to train on, and returns 500 more pairs."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "data"))
    from grammar_ende.corpus import corpus_splits

    train, dev, test = corpus_splits(seed=16, train=4500, validation=60, test=40)
    parts = {"train": train[:3000], "other": train[3000:4000], "dev": dev, "test": test}
    for name, pairs in parts.items():
        for side, suffix in (("en", "en"), ("de", "de"), ("tree", "mrg")):
            lines = "".join(f"{getattr(pair, side)}\n" for pair in pairs)
            (folder / f"{name}.{suffix}").write_text(lines)
    return [pair.en for pair in train[4000:]], [pair.de for pair in train[4000:]]


def record(checkout_path: Path, names: Sequence[str]) -> Arrays:
    """Returns what the cases of some names compute."""
    arrays: Arrays = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "text").mkdir()
        sources, targets = write_text(folder / "text")
        checkout = Checkout(checkout_path, folder, folder / "text")
        for case in CASES:
            if case.name not in names:
                continue
            start = time.monotonic()
            train(checkout, case)
            model_dir = checkout.run_dir(case.name)
            if case.used:
                checkout.run("average", f"--model_dir={model_dir}", "--to_step=300")
            for name, value in trained_values(model_dir):
                arrays[f"{case.name}: {name}"] = value
            if case.used:
                for name, value in used_values(checkout, model_dir, sources, targets):
                    arrays[f"{case.name}: {name}"] = value
            shutil.rmtree(model_dir)
            seconds = time.monotonic() - start
            print(f"{case.name}: {seconds:.0f} s", file=sys.stderr, flush=True)
    return arrays


def main(argv: Sequence[str] | None = None) -> None:
    """Records the cases that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="An .npz file.")
    names = [case.name for case in CASES]
    parser.add_argument("--cases", nargs="*", choices=names, default=names)
    chosen = parser.parse_args(argv)
    np.savez_compressed(chosen.output, **record(chosen.checkout, chosen.cases))


if __name__ == "__main__":
    main()
