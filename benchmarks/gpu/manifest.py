"""Manifest of a program: its arguments, results, sizes and cost.

Needs only the standard library and NumPy: a program is written with TensorFlow and run
with JAX, and neither environment has the other library.
"""

import argparse
import dataclasses
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

# Version of the files below; programs refuse any other version.
FORMAT = 2
MANIFEST_FILE = "manifest.json"
PROGRAM_FILE = "program.mlir.gz"
INPUTS_FILE = "inputs.npz"

UPDATE, EVALUATION, SEARCH = "update", "evaluation", "search"


@dataclasses.dataclass(frozen=True)
class Argument:
    """Argument of the program.

    Attributes:
        name: Feature of the batch, or path of a variable.
        shape: Static shape.
        dtype: NumPy's name of the data type.
        is_state: Whether it is a variable rather than a feature of the batch.
        std: Standard deviation of a variable's initial value, whose mean is 0. Training
            starts as well from other random numbers of it as from the real values,
            which may take a gigabyte.
        constant: The initial value if `std` is 0.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_state: bool
    std: float = 0.0
    constant: float = 0.0


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of the program.

    Attributes:
        name: Sum of the step, output of the search, or path of a variable.
        shape: Static shape.
        dtype: NumPy's name of the data type.
        replaces: Index of the argument that takes this value in the next run; None for
            an output.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    replaces: int | None = None


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Description of a program, stored as JSON in its folder.

    Attributes:
        name: Name of the program and of its folder.
        kind: "update", one or more updates of training; "evaluation", the loss of a
            dev set; or "search", a beam search of a batch.
        config: Flagfile with the settings, without its suffix.
        precision: Data type of computations: float32, bfloat16 or float16.
        device: "cpu" or "gpu", the device whose choices the program has.
        rows: Rows of the batch.
        source_length: Tokens per row of sources.
        target_length: Tokens per row of targets; in a search, of every output.
        tokens: Target tokens per run, without padding.
        packed: Whether a row holds several sentence pairs.
        beam_size: Hypotheses of a search; 0 in an update.
        sizes: Sizes of the model: encoder_layers, d_model, d_ff, vocabulary_size, ...
        flops: FLOPs of the matrix products of a run; an addition and a multiplication
            count as 2.
        expected: Outputs of the first run computed in float32 on a CPU, by name; empty
            if the program is too large for that.
        commit: Commit of this project.
        tensorflow: Version of TensorFlow that wrote the program.
        arguments: Arguments in order.
        results: Results in order.
    """

    name: str
    kind: str
    config: str
    precision: str
    device: str
    rows: int
    source_length: int
    target_length: int
    tokens: int
    packed: bool
    beam_size: int
    sizes: dict[str, Any]
    flops: float
    expected: dict[str, float]
    commit: str
    tensorflow: str
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]

    @property
    def is_check(self) -> bool:
        """Whether it is an update of a few rows, of which only outputs matter."""
        return self.kind == UPDATE and bool(self.expected)


def save_program(
    folder: Path, manifest: Manifest, text: str, inputs: dict[str, np.ndarray]
) -> None:
    """Writes a program, its manifest and the values of its features into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST_FILE).unlink(missing_ok=True)
    (folder / PROGRAM_FILE).write_bytes(gzip.compress(text.encode(), mtime=0))
    np.savez_compressed(folder / INPUTS_FILE, **inputs)  # type: ignore[arg-type]
    values = {"format": FORMAT, **dataclasses.asdict(manifest)}
    text = json.dumps(values, indent=1)
    # Last, so that a folder with a manifest is complete.
    (folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")


def load_program_text(folder: Path) -> str:
    """Returns the StableHLO text of the program in a folder."""
    return gzip.decompress((folder / PROGRAM_FILE).read_bytes()).decode()


def load_manifest(folder: Path) -> Manifest:
    """Returns the manifest of the program in a folder.

    Raises:
        SystemExit: If there is no manifest, or its format is another version.
    """
    path = folder / MANIFEST_FILE
    if not path.is_file():
        raise SystemExit(
            f"There is no {path}. Give the folder of a program; of a training, its "
            "folder update. Programs are written by python -m benchmarks.gpu.write"
        )
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise SystemExit(
            f"{path} must be JSON of benchmarks.gpu.write. Received a file that is cut "
            f"or damaged: {error}. Write the program again, or copy it again."
        ) from error
    version = values.pop("format", None)
    if version != FORMAT:
        raise SystemExit(
            f"{path} must be of format {FORMAT}. Received: {version}. Write the "
            "programs again, with the code that is to run them."
        )
    # A folder that was renamed, to come earlier, or copied is a program of its own.
    values["name"] = folder.resolve().name
    for name, kind in (("arguments", Argument), ("results", Result)):
        values[name] = tuple(
            kind(**{**each, "shape": tuple(each["shape"])}) for each in values[name]
        )
    return Manifest(**values)


def pattern(text: str) -> re.Pattern[str]:
    """Returns a flag's regular expression of names.

    Raises:
        argparse.ArgumentTypeError: If it is none.
    """
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(
            f"expected a regular expression, not {text}: {error}"
        ) from error
