"""Versions that cannot be loaded, and what the server says of each."""

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tests.serving.server.warm_up_requests import predict_log, write


class Damage(NamedTuple):
    """How a version is broken.

    Attributes:
        do: Breaks the version in a directory.
        code: Of the error, as gRPC numbers them; 0 if TensorFlow has the choice.
        message: A pattern of the whole message.
    """

    do: Callable[[Path], object]
    code: int
    message: str


def with_a_broken_graph(directory: Path) -> None:
    (directory / "saved_model.pb").write_bytes(b"broken")


def without_variables(directory: Path) -> None:
    for file in (directory / "variables").iterdir():
        file.unlink()


def with_a_warm_up_that_is_none(directory: Path) -> None:
    write(directory).write_bytes(b"These are no records. " * 9)


INVALID, LOST = 3, 15
# By the number of the version.
DAMAGES = MappingProxyType(
    {
        2: Damage(with_a_broken_graph, 0, "(?s).+"),
        3: Damage(without_variables, 0, "(?s).+"),
        4: Damage(
            lambda directory: write(directory, predict_log("picky", text=[b"poison"])),
            INVALID,
            "(?s).*poison is not food.*",
        ),
        5: Damage(
            with_a_warm_up_that_is_none,
            LOST,
            "(?s).*Please verify your warmup data is in TFRecord format.*",
        ),
    }
)
