"""What the programs of the peers take: a written program, and installed libraries."""

import argparse
import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu.manifest import Manifest, load_manifest
from benchmarks.gpu.results import Results

# Options of models that no peer implements, with the paper's choices.
_PAPERS_CHOICES = (
    ("normalization", "post"),
    ("activation", "relu"),
    ("attention_dropout_rate", 0.0),
    ("attention_bias", False),
    ("output_bias", False),
    ("tie_output", True),
    ("share_embeddings", True),
    ("learned_positions", None),
    ("encoder_neighborhood", None),
)


def parse(
    description: str, runs: int, argv: Sequence[str] | None
) -> argparse.Namespace:
    """Returns the command line: program, out, runs, seconds, only and platform.

    Args:
        description: What the peer does.
        runs: Default number of timed runs.
        argv: Arguments. Default: those of the process.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--program", type=Path, required=True, help="Its folder.")
    parser.add_argument("--out", type=Path, required=True, help="Lines are added here.")
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="No variant starts after that time.",
    )
    parser.add_argument(
        "--only", default="", help="Only variants with this text in their names."
    )
    parser.add_argument(
        "--platform", choices=("gpu",), help="Fail without it. Default: what is there."
    )
    return parser.parse_args(argv)


def load_program(folder: Path, kind: str) -> Manifest:
    """Returns the manifest of a program.

    Raises:
        SystemExit: If it is of another kind, or its model is not the paper's.
    """
    manifest = load_manifest(folder)
    others = [
        f"{name}={manifest.sizes[name]}"
        for name, choice in _PAPERS_CHOICES
        if manifest.sizes.get(name, choice) != choice
    ]
    if manifest.kind != kind or others:
        raise SystemExit(
            f"{folder}: the program must be of kind {kind!r} and its model the "
            f"paper's. Received: kind {manifest.kind!r} {' '.join(others)}"
        )
    return manifest


def is_missing(results: Results, *libraries: str) -> bool:
    """Returns whether one of the libraries is not installed, and adds that line."""
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            results.add(error=f"{library} is not installed")
            return True
    return False
