"""Mutation check: every variant applies to the current code; the check is correct."""

import ast
import functools
import os
from pathlib import Path

import pytest

from tests.mutations.checking import ROOT, as_table, check_all
from tests.mutations.mutation import Mutation
from tests.mutations.running import CAUGHT, ERROR, QUICK, Stage
from tests.mutations.variants import VARIANTS

TOY_STAGES = (
    Stage("quick, own package", QUICK, own=True),
    Stage("quick", QUICK, own=False),
)
ADDING = """
class Sum:
    def of(self, numbers, start=0):
        total = start
        for number in numbers:
            total += number
        return total


def mean(numbers):
    return Sum().of(numbers) / len(numbers)
"""


def test_every_variant_applies_and_compiles() -> None:
    dump = functools.cache(lambda source: ast.dump(ast.parse(source)))
    for each in VARIANTS:
        path = each.path(ROOT)
        source = path.read_text(encoding="utf-8")
        variant = each.apply(source)
        tree = ast.parse(variant)
        assert ast.dump(tree) != dump(source), each.name
        compile(tree, str(path), "exec")


def test_variants_are_of_all_packages_and_differ_in_name() -> None:
    package = ROOT / "t2t_keras"
    computing = [path for path in package.rglob("*.py") if "\ndef " in path.read_text()]
    folders = {path.parent for path in computing} - {package}
    packages = {".".join(path.relative_to(ROOT).parts) for path in folders}
    assert packages <= {each.module.rpartition(".")[0] for each in VARIANTS}
    assert len({each.name for each in VARIANTS}) == len(VARIANTS) >= 40


def test_one_occurrence_of_an_expression_or_a_statement_is_replaced() -> None:
    statement = Mutation("x", "toy.a", "Sum.of", "total += number", "total -= number")
    assert "total -= number" in statement.apply(ADDING)
    source = "def f(x):\n    return g(x) + g(x)\ndef g(x):\n    return g(x)\n"
    second = Mutation("x", "toy.a", "f", "g(x)", "x * 2", index=1)
    assert "return g(x) + x * 2" in second.apply(source)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkout with two test files, one of whose tests always fails."""
    # Importing all plugins takes longer than everything else here.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist -p pytest_timeout")
    root = tmp_path / "toy root"
    _write(root / "toy/__init__.py", "")
    _write(root / "toy/adding.py", ADDING)
    program = "from toy.adding import mean\nprint(mean([2, 4]))\n"
    _write(root / "toy/__main__.py", program)
    _write(root / "pyproject.toml", "[tool.pytest.ini_options]\n")
    _write(
        root / "tests/test_adding.py",
        "import pytest\nfrom toy.adding import Sum\n"
        "@pytest.mark.parametrize('n', [[2, 3]])\n"
        "def test_sum(n):\n    assert Sum().of(n) == 5\n",
    )
    _write(
        root / "tests/test_program.py",
        "import subprocess, sys\n"
        "def test_mean():\n"
        "    run = subprocess.run([sys.executable, '-m', 'toy'], capture_output=True)\n"
        "    assert run.stdout == b'3.0\\n'\n"
        "def test_red():\n    assert False\n",
    )
    return root


@pytest.mark.slow
def test_a_variant_is_caught_by_a_test_that_passes_without_it(
    toy: Path, tmp_path: Path
) -> None:
    variants = [
        Mutation("begins at 1", "toy.adding", "Sum.of", "total = start", "total = 1"),
        Mutation("no mean", "toy.adding", "mean", "len(numbers)", "1"),
        Mutation("a list", "toy.adding", "Sum.of", "numbers", "list(numbers)"),
        Mutation("no import", "toy.adding", "Sum.of", "0", "1 / 0"),
        Mutation("gone", "toy.adding", "median", "numbers", "0"),
    ]
    state = tmp_path / "state"
    found = check_all(variants, root=toy, stages=TOY_STAGES, state=state, jobs=2)
    first, mean, same, broken, gone = found
    assert (first.outcome, first.stage) == (CAUGHT, "quick, own package")
    assert first.test == "tests/test_adding.py::test_sum[n0]"
    assert first.confirmed
    # Variants also apply in programs that the tests start.
    assert (mean.outcome, mean.stage) == (CAUGHT, "quick")
    assert mean.test == "tests/test_program.py::test_mean"
    # A test that always fails proves nothing, nor does a file that cannot be imported.
    assert (same.outcome, same.test) == (ERROR, "tests/test_program.py::test_red")
    assert "without the variant" in same.note
    assert (broken.outcome, broken.test) == (ERROR, "")
    assert gone.outcome == ERROR
    assert "no median in toy.adding" in gone.note
    assert (toy / "toy/adding.py").read_text() == ADDING
    table = as_table(variants, found)
    assert "| no mean | `adding.mean` | quick | `test_program.py::test_mean`" in table
    assert "2 of 5 caught" in table


@pytest.mark.release
@pytest.mark.timeout(0)
def test_the_tests_catch_every_variant(capsys: pytest.CaptureFixture) -> None:
    with capsys.disabled():
        results = check_all(VARIANTS, jobs=max(1, (os.cpu_count() or 1) // 2))
        print(f"\n{as_table(VARIANTS, results)}")
    assert [each.name for each in results if each.outcome != CAUGHT] == []
    quick = [each for each in results if each.stage.startswith("quick")]
    assert len(quick) >= 0.85 * len(results)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
