"""Equality check of two records of results: what counts as equal."""

import numpy as np

from benchmarks.equality.cases import CASES, SHORT
from benchmarks.equality.compare import compare, difference, main, table
from t2t_keras.settings.flags import config_from_arguments

FLOATS = np.array([0.5, -2.0, np.nan], "float32")


def test_equal_means_equal_bit_for_bit():
    assert difference(FLOATS, FLOATS.copy()) == 0.0
    for old, new in (
        (FLOATS, FLOATS.astype("float64")),
        (FLOATS, FLOATS[:2]),
        (np.array(["a"]), np.array(["b"])),
        (np.array([1]), np.array([2])),
        (np.array([0.0]), np.array([-0.0])),
        (np.array([1.0]), np.array([np.nan])),
    ):
        assert difference(old, new) == np.inf, (old, new)


def test_a_difference_is_relative_to_the_largest_value():
    old = np.array([0.0, 4.0, -8.0])
    assert difference(old, np.array([0.0, 6.0, -8.0])) == 0.25


def test_a_value_that_one_side_lacks_differs():
    old = {"tiny: loss 1": np.array(1.0), "tiny: loss 2": np.array(1.0)}
    new = {"tiny: loss 1": np.array(1.0), "packed: loss 1": np.array(2.0)}
    found = compare(old, new)
    assert found == {
        "tiny: loss 1": 0.0,
        "tiny: loss 2": np.inf,
        "packed: loss 1": np.inf,
    }
    lines = table(found)
    assert lines[2:4] == ["| tiny | 2 | 1 | inf |", "| packed | 1 | 0 | inf |"]
    assert lines[-2:] == ["tiny: loss 2: inf", "packed: loss 1: inf"]


def test_the_status_says_whether_anything_differs(tmp_path, capsys):
    old, new = tmp_path / "old.npz", tmp_path / "new.npz"
    np.savez(old, **{"tiny: loss 1": FLOATS})
    np.savez(new, **{"tiny: loss 1": FLOATS[::-1]})
    assert main([str(old), str(old)]) == 0
    assert main([str(old), str(new)]) == 1
    assert "| tiny | 1 | 0 | inf |" in capsys.readouterr().out


def test_all_cases_are_settings_of_a_run():
    for case in CASES:
        flags = [*SHORT, "--train_source=a.tsv", *case.flags]
        assert config_from_arguments(flags, source=case.name), case.name
    assert len({case.name for case in CASES}) == len(CASES)
