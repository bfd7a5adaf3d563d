"""Manifest of a program: its arguments, results and cost.

Needs only the standard library: a program is written with TensorFlow and run with JAX,
and neither environment has the other library.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

# Version of the files below; programs refuse any other version.
FORMAT = 1
MANIFEST_FILE = "manifest.json"
PROGRAM_FILE = "program.mlir"
BATCH_FILE = "batch.npz"
INITIAL_FILE = "initial.npz"


@dataclasses.dataclass(frozen=True)
class Argument:
    """Argument of the program.

    Attributes:
        name: Feature of the batch, or path of a variable.
        shape: Static shape.
        dtype: NumPy's name of the data type.
        is_state: Whether it is a variable rather than a feature of the batch.
        mean: Mean of a variable's initial value.
        std: Standard deviation of it; 0 if all elements are `mean`. Training starts as
            well from such a normal distribution as from the real initial values, which
            may take a gigabyte.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_state: bool
    mean: float = 0.0
    std: float = 0.0


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of the program.

    Attributes:
        name: Sum of the step, or path of a variable.
        shape: Static shape.
        dtype: NumPy's name of the data type.
        replaces: Index of the argument that takes this value in the next step; None
            for a sum.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    replaces: int | None = None


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Description of a program, stored as JSON in its folder.

    Attributes:
        config: Flagfile with the settings, without its suffix.
        precision: Data type of computations: float32, bfloat16 or float16.
        rows: Sentence pairs per batch.
        source_length: Tokens per source, without padding.
        target_length: Tokens per target, without padding.
        sizes: Sizes of the model: num_layers, d_model, d_ff, vocabulary_size, ...
        flops_per_step: FLOPs of the matrix products; an addition and a multiplication
            count as 2.
        commit: Commit of this project.
        tensorflow: Version of TensorFlow that wrote the program.
        arguments: Arguments in order.
        results: Results in order.
    """

    config: str
    precision: str
    rows: int
    source_length: int
    target_length: int
    sizes: dict[str, Any]
    flops_per_step: float
    commit: str
    tensorflow: str
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]

    def save(self, folder: Path) -> None:
        """Writes the manifest into a folder."""
        values = {"format": FORMAT, **dataclasses.asdict(self)}
        text = json.dumps(values, indent=1)
        (folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")


def load_manifest(folder: Path) -> Manifest:
    """Returns the manifest of the program in a folder.

    Raises:
        SystemExit: If there is no manifest, or its format is another version.
    """
    path = folder / MANIFEST_FILE
    if not path.is_file():
        raise SystemExit(
            f"There is no {path}. Write a program first: "
            "python -m benchmarks.xla_program.write --help"
        )
    values = json.loads(path.read_text(encoding="utf-8"))
    version = values.pop("format", None)
    if version != FORMAT:
        raise SystemExit(
            f"{path} must be of format {FORMAT}. Received: {version}. Write the "
            "program again, with the code that is to run it."
        )
    for name, kind in (("arguments", Argument), ("results", Result)):
        values[name] = tuple(
            kind(**{**each, "shape": tuple(each["shape"])}) for each in values[name]
        )
    return Manifest(**values)
