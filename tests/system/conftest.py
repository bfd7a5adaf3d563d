"""Programs, and the trained models of `tests.runs`, shared by the system tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import server_process
from tests.forked import ForkedProcess
from tests.make_once import make_once
from tests.programs import Programs
from tests.runs.trained_runs import (  # noqa: F401
    config,
    fake_stepper,
    make_translator,
    model_dir,
    own_run,
    own_short_run,
    reverse_run,
    short_run,
    subwords_learned_once,
    trained,
    unvalidated,
    vocabulary,
)
from tests.system.c_programs import build_c


@pytest.fixture(scope="session", autouse=True)
def forked_servers() -> Iterator[None]:
    """Forks servers, as other programs; tests of a start itself do not use this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_process, "start_python", ForkedProcess)
        yield


@pytest.fixture(scope="session")
def c_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built programs of examples/c."""
    return make_once(tmp_path_factory, "c", build_c)


@pytest.fixture
def programs() -> Iterator[Programs]:
    """A starter of background programs, which end with the test."""
    with Programs() as programs:
        yield programs
