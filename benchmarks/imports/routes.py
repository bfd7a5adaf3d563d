"""Translations of a model directory by every route: Python, SavedModel and server."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow_text  # noqa: F401 - registers the ops of the tokenizers

from benchmarks.server_process import started_server
from t2t_keras import Run, TranslationClient
from t2t_keras.serving import signature
from t2t_keras.serving.export.requests import Request
from t2t_keras.serving.export.validation import open_session


def run_program(name: str, *flags: str) -> None:
    """Runs a program of this project; raises `RuntimeError` with its message."""
    command = [sys.executable, "-m", f"t2t_keras.{name}", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr}")


def convert(source_format: str, source: Path, model_dir: Path) -> None:
    """Imports a model."""
    flags = f"--from={source_format}", f"--input={source}", f"--model_dir={model_dir}"
    run_program("convert", *flags)


def translate_by_all_routes(
    model_dir: Path, lines: Sequence[str], *, beam_size: int | None = None
) -> dict[str, list[str]]:
    """Returns the translations of lines by each route.

    The SavedModel is loaded into a session of TensorFlow 1, as servers do.

    Args:
        model_dir: The model directory.
        lines: Source text.
        beam_size: Beam size. Default: that of the model directory.
    """
    search = {} if beam_size is None else {"beam_size": beam_size}
    found = Run(model_dir).translate(lines, **search)
    texts = {"Python": [line.text for line in found]}
    flags = [f"--{name}={value}" for name, value in search.items()]
    run_program("export", f"--model_dir={model_dir}", *flags)
    strings = np.array([line.encode() for line in lines], dtype=object)
    with open_session(model_dir / "export" / "1") as served:
        answer = served.ask(Request(signature.TRANSLATE, {signature.TEXT: strings}))
        found = answer[signature.TRANSLATION]
        texts["SavedModel"] = [text.decode() for text in found.tolist()]
    with (
        started_server(model_dir / "export") as server,
        TranslationClient(server.address) as client,
    ):
        texts["server"] = [line.text for line in client.translate(lines)]
    return texts


def count_equal(texts: Sequence[str], others: Sequence[str]) -> str:
    """Returns how many texts are equal, as "199 of 200"."""
    pairs = list(zip(texts, others, strict=True))
    return f"{sum(one == other for one, other in pairs)} of {len(pairs)}"
