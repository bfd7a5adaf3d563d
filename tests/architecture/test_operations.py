"""Operations are implemented in one module each, and settings are declared once."""

import pytest

from benchmarks.architecture import (
    OPERATIONS,
    REPETITIONS,
    find_modules,
    find_rooms,
    find_users,
)
from tests.architecture.tree import ROOT

MODULES = (
    ("rename files", "files.atomic"),
    ("lock files", "files.locks"),
    ("set signal handlers", "files.signals"),
    ("hash files", "files.atomic"),
    ("read standard input and compressed text", "files.lines"),
    ("decompress zstd", "files.zstd"),
    ("define the shape of a batch", "typing"),
    ("define the sums of an update", "training.update"),
)


def test_each_operation_is_in_one_module() -> None:
    modules = find_modules(ROOT)
    assert set(OPERATIONS) == {what for what, _ in MODULES}
    for what, module in MODULES:
        advice = f"only {module} may {what}; call a function there"
        assert find_users(modules, OPERATIONS[what]) == [module], advice


@pytest.mark.parametrize("what", REPETITIONS)
def test_nothing_is_declared_a_second_time(what: str) -> None:
    found = [
        f"{path}:{line}: one of {what}"
        for name, path in find_modules(ROOT).items()
        for line in REPETITIONS[what](name, path)
    ]
    assert found == []


def test_rooms_of_runs_import_what_is_below_them() -> None:
    _, imports = find_rooms(find_modules(ROOT), "t2t_keras.runs")
    found = {tuple(each.split(".")[-1] for each in pair) for pair in imports}
    order = ("model_dir", "tasks", "models", "translators", "data", "training")
    order = (*order, "translation", "export", "finish", "run")
    assert {room for pair in found for room in pair} == {*order}
    assert [pair for pair in found if order.index(pair[0]) < order.index(pair[1])] == []
    # The four rooms know only data/ of each other.
    rooms = {"data", "training", "translation", "export"}
    assert {pair for pair in found if {*pair} <= rooms} == {
        ("training", "data"),
        ("translation", "data"),
    }
