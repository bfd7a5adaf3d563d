"""What a written program takes and gives, and what it costs.

Standard library only: a program is written beside TensorFlow and run beside JAX,
and neither has the other.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

# Of the files below; one that reads another number does not know them.
FORMAT = 1
MANIFEST_FILE = "manifest.json"
PROGRAM_FILE = "program.mlir"
BATCH_FILE = "batch.npz"
INITIAL_FILE = "initial.npz"


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of the program.

    Attributes:
        name: Of a batch's feature, or the path of a variable.
        shape: Static.
        dtype: As NumPy spells it.
        is_state: Whether it is a variable, else a feature of the batch.
        mean: Of a variable's initial value.
        std: Likewise; 0 where all elements are `mean`. A normal distribution of
            both starts as well as the real initial values, which may be a gigabyte.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_state: bool
    mean: float = 0.0
    std: float = 0.0


@dataclasses.dataclass(frozen=True)
class Result:
    """One result of the program.

    Attributes:
        name: Of a sum of the step, or the path of a variable.
        shape: Static.
        dtype: As NumPy spells it.
        replaces: The place of the argument that is this in the next step; None for
            a sum.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    replaces: int | None = None


@dataclasses.dataclass(frozen=True)
class Manifest:
    """A program's description, beside it as JSON.

    Attributes:
        config: The flagfile it was made from, without its ending.
        precision: What is computed in: float32, bfloat16 or float16.
        rows: Sentence pairs of a batch.
        source_length: Tokens of a source, none of them padding.
        target_length: Tokens of a target, likewise.
        sizes: Of the model: num_layers, d_model, d_ff, vocabulary_size, ...
        flops_per_step: Of the matrix products, an addition and a multiplication
            being 2.
        commit: Of this project.
        tensorflow: The version that wrote it.
        arguments: In order.
        results: In order.
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
        """Writes it into a folder."""
        values = {"format": FORMAT, **dataclasses.asdict(self)}
        text = json.dumps(values, indent=1)
        (folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")


def load_manifest(folder: Path) -> Manifest:
    """Returns the description of the program in a folder.

    Raises:
        SystemExit: If there is none, or of another format.
    """
    path = folder / MANIFEST_FILE
    if not path.is_file():
        raise SystemExit(
            f"There is no {path}. Write a program first: "
            "python -m benchmarks.xla_program.write --help"
        )
    values = json.loads(path.read_text(encoding="utf-8"))
    found = values.pop("format", None)
    if found != FORMAT:
        raise SystemExit(
            f"{path} must be of format {FORMAT}. Received: {found}. Write the program "
            "again, with the code that is to run it."
        )
    for name, kind in (("arguments", Argument), ("results", Result)):
        values[name] = tuple(
            kind(**{**each, "shape": tuple(each["shape"])}) for each in values[name]
        )
    return Manifest(**values)
