"""Damaged model versions, each with the error that the server reports for it."""

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tests.server.tf_serving.warm_up_requests import predict_log, write


class Damage(NamedTuple):
    """Damage to a version.

    Attributes:
        do: Function that damages the version in a directory.
        code: Number of the gRPC status; 0 for any error that TensorFlow raises.
        message: Pattern of the whole message.
    """

    do: Callable[[Path], object]
    code: int
    message: str


def break_graph(directory: Path) -> None:
    (directory / "saved_model.pb").write_bytes(b"broken")


def delete_variables(directory: Path) -> None:
    for file in (directory / "variables").iterdir():
        file.unlink()


def break_warm_up_file(directory: Path) -> None:
    write(directory).write_bytes(b"These are no records. " * 9)


INVALID, LOST = 3, 15
# Keys are version numbers.
DAMAGES = MappingProxyType(
    {
        2: Damage(break_graph, 0, "(?s).+"),
        3: Damage(delete_variables, 0, "(?s).+"),
        4: Damage(
            lambda directory: write(directory, predict_log("picky", text=[b"poison"])),
            INVALID,
            "(?s).*poison is not food.*",
        ),
        5: Damage(
            break_warm_up_file,
            LOST,
            "(?s).*Please verify your warmup data is in TFRecord format.*",
        ),
    }
)
