"""Equality check of two records of results: what counts as equal."""

import numpy as np

from benchmarks.equality.compare import difference, main

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


def test_the_status_says_whether_anything_differs(tmp_path, capsys):
    old, new = tmp_path / "old.npz", tmp_path / "new.npz"
    np.savez(old, **{"tiny: loss 1": FLOATS})
    np.savez(new, **{"tiny: loss 1": FLOATS[::-1]})
    assert main([str(old), str(old)]) == 0
    assert main([str(old), str(new)]) == 1
    assert "| tiny | 1 | 0 | inf |" in capsys.readouterr().out
