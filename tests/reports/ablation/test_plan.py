"""Plan of an ablation: its runs in order, and refused sets of rows."""

from pathlib import Path

import pytest

from t2t_keras.errors import UserError
from t2t_keras.reports.ablation.plan import changes, plan_runs, read_rows
from tests.reports.ablation.rows import small_plan, write_rows


def test_the_base_comes_first_and_every_row_from_a_seed_before_the_next(tmp_path):
    paths = write_rows(
        tmp_path, a1="--num_heads=1", base="--seed=5", c1="--num_layers=1\n--seed=5"
    )
    runs = plan_runs(read_rows(paths, []), 2, Path("out"))
    assert [(run.row.name, run.seed) for run in runs] == [
        ("base", 5),
        ("a1", 1),
        ("c1", 5),
        ("base", 6),
        ("a1", 2),
        ("c1", 6),
    ]
    assert len({run.model_dir for run in runs}) == 6
    assert runs[1].model_dir == Path("out/a1/seed-1")
    assert runs[1].log == Path("out/a1/seed-1.log")
    assert runs[1].title == "a1, seed 1"


def test_arguments_for_all_rows_override_a_flagfile(tmp_path):
    rows, runs = small_plan(tmp_path)
    assert {row.config.model.d_model for row in rows} == {16}
    assert {run.steps for run in runs} == {40}
    assert changes(rows[1], rows[0]) == {"num_heads": 1}
    assert changes(rows[0], rows[1]) == {"num_heads": 2}


def test_a_pattern_selects_all_matching_flagfiles(tmp_path):
    write_rows(tmp_path, a1="--num_heads=1", base="", c1="--num_layers=1")
    rows = read_rows([f"{tmp_path}/*1.flags", f"{tmp_path}/base.flags"], [])
    assert [row.name for row in rows] == ["base", "a1", "c1"]


NO_TABLES = (
    (("a1", "missing"), (), r"There is no flagfile .*missing\.flags"),
    ((), (), r"--rows is required"),
    (("a1", "a1"), (), r"a1\.flags and .*a1\.flags have one name.*Rename one"),
    (
        ("base", "a1"),
        ("--num_heads=4",),
        r"base\.flags and .*a1\.flags have the same settings.*Leave out the flag",
    ),
    (
        ("base", "v"),
        (),
        r"not of one corpus and vocabulary: --vocabulary_size differ",
    ),
    (("base", "wrong"), (), r"wrong\.flags: .*num_head'. Did you mean: num_heads"),
)


def test_rows_that_make_no_table_are_refused(tmp_path):
    write_rows(
        tmp_path,
        base="",
        a1="--num_heads=1",
        v="--vocabulary_size=400",
        wrong="--num_head=3",
    )
    for rows, given, message in NO_TABLES:
        with pytest.raises(UserError, match=message):
            read_rows([f"{tmp_path}/{row}.flags" for row in rows], given)
            pytest.fail(f"{rows} with {given} were read")
