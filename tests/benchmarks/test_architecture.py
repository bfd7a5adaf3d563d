"""Benchmark of the architecture: counts of modules and imports in a small tree."""

import pytest

from benchmarks.architecture import (
    OPERATIONS,
    find_cycles,
    find_modules,
    find_reachable,
    find_users,
)


@pytest.fixture
def modules(tmp_path):
    for name, text in (
        ("__init__", ""),
        (
            "train",
            "def main():\n    from t2t_keras.runs import loop\n    import grpc.aio\n",
        ),
        ("average", "import t2t_keras.files.atomic\n"),
        ("runs/__init__", ""),
        ("runs/loop", "import numpy as np\nfrom t2t_keras.files.atomic import write\n"),
        ("files/__init__", ""),
        ("files/atomic", "def write(a, b):\n    a.rename(b)\n"),
        ("files/first", "if True:\n    import t2t_keras.files.second\n"),
        ("files/second", "def f():\n    from t2t_keras.files import first\n"),
    ):
        path = tmp_path / "t2t_keras" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return find_modules(tmp_path)


def test_imports_inside_functions_count_where_they_are_asked_for(modules):
    whole, others = find_reachable("t2t_keras.train", modules, inside_functions=True)
    short = {name.removeprefix("t2t_keras").lstrip(".") for name in whole}
    assert short == {"train", "runs", "runs.loop", "files.atomic"}
    assert others == {"grpc", "numpy"}
    start = find_reachable("t2t_keras.train", modules, inside_functions=False)
    assert start == ({"t2t_keras.train"}, set())


def test_a_cycle_is_found_from_both_sides(modules):
    pair = "t2t_keras.files.first", "t2t_keras.files.second"
    assert find_cycles(modules) == [" -> ".join(pair), " -> ".join(reversed(pair))]


def test_modules_that_do_something_are_named(modules):
    assert find_users(modules, OPERATIONS["rename files"]) == ["files.atomic"]
    assert find_users(modules, OPERATIONS["set signal handlers"]) == []
