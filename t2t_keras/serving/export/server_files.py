"""Configuration files and commands that start TensorFlow Serving on an export.

They are next to the versions, where a server ignores them, and are written only once,
since operators may edit them.
"""

import string
from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t_keras.files.atomic import write_file
from t2t_keras.serving.config_protos import (
    BATCHING_OF_VERSION,
    empty_message,
    read_text_proto,
)

# The newest release with an image. Exports are made by TensorFlow 2.21, one later.
IMAGE = "tensorflow/serving:2.20.0"
# Mount point of the export in a container of that image.
MOUNT = "/models"
# Makes malloc use huge pages: docs/serving.md, "Speed".
MALLOC = "glibc.malloc.hugetlb=1"
BATCHING = "batching.config"

# TensorFlow Serving's default of max_batch_size.
_DEFAULT_MAX_BATCH_SIZE = 1000

_TEMPLATES = Path(__file__).with_name("server_templates")
_NAMES = (
    "models.config",
    BATCHING,
    "monitoring.config",
    "compose.yaml",
    "kubernetes.yaml",
    "README.md",
)
_XLA_FLAGS = (
    "--xla_cpu_compilation_enabled=true",
    "--xla_gpu_compilation_enabled=true",
)


def write_server_files(
    base: Path, model_name: str, batch_sizes: Sequence[int], xla: bool
) -> None:
    """Writes the files that do not exist yet.

    Args:
        base: Directory of the versions.
        model_name: Name of the model in requests.
        batch_sizes: Batch sizes that a server pads to, ascending.
        xla: Whether the export needs a server with XLA.
    """
    for path, text in _render_files(base, model_name, batch_sizes, xla):
        if not path.exists():
            write_file(path, text.encode())


def find_differing_files(
    base: Path, model_name: str, batch_sizes: Sequence[int], xla: bool
) -> list[Path]:
    """Returns the existing files that differ from what this export would write.

    The arguments are those of `write_server_files`.
    """
    return [
        path
        for path, text in _render_files(base, model_name, batch_sizes, xla)
        if path.exists() and path.read_bytes() != text.encode()
    ]


def _render_files(
    base: Path, model_name: str, batch_sizes: Sequence[int], xla: bool
) -> Iterator[tuple[Path, str]]:
    """Yields each file and its content."""
    xla_flags = _XLA_FLAGS if xla else ()
    values = {
        **_batching_values(batch_sizes),
        "name": model_name,
        "image": IMAGE,
        "malloc": MALLOC,
        "mount": f"{MOUNT}/{model_name}",
        "volume": base.name.replace("_", "-"),
        "xla_arguments": "".join(f'            - "{flag}"\n' for flag in xla_flags),
        "compose_xla": "".join(f'      - "{flag}"\n' for flag in xla_flags),
        "xla_flags": "".join(f" \\\n    {flag}" for flag in xla_flags),
    }
    for name in _NAMES:
        template = string.Template((_TEMPLATES / name).read_text(encoding="utf-8"))
        yield base / name, template.substitute(values)


def write_batching_parameters(version: Path, batch_sizes: Sequence[int]) -> None:
    """Writes the file that servers read with --enable_per_model_batching_parameters."""
    text = (_TEMPLATES / BATCHING).read_text(encoding="utf-8")
    content = string.Template(text).substitute(_batching_values(batch_sizes))
    (version / BATCHING_OF_VERSION).write_text(content, encoding="utf-8")


def read_max_batch_size(path: Path) -> int:
    """Returns the maximum rows of a request, from a server's batching file.

    Raises:
        UserError: If the file cannot be read as a text `BatchingParameters`.
    """
    parameters = read_text_proto(path, empty_message("BatchingParameters"))
    if parameters.HasField("max_batch_size"):
        return parameters.max_batch_size.value
    return _DEFAULT_MAX_BATCH_SIZE


def _batching_values(batch_sizes: Sequence[int]) -> dict[str, str]:
    return {
        "max_batch_size": str(batch_sizes[-1]),
        "allowed_batch_sizes": "\n".join(
            f"allowed_batch_sizes: {size}" for size in batch_sizes
        ),
    }
