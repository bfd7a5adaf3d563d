"""Flagfiles of configs/table3: one for each row of the paper's Table 3.

configs/table3_small has the same rows for a model of an eighth of the width.
"""

from pathlib import Path
from types import MappingProxyType

import pytest

from t2t_keras.settings.config import ExperimentConfig, flatten
from t2t_keras.settings.flags import config_from_flagfile
from tests import paper_table_3

ROOT = Path(__file__).parents[2]
# Table 3 is for newstest2013 and single checkpoints.
OURS = frozenset({"average_checkpoints", "score_split"})
ROWS = MappingProxyType({row.name: row for row in paper_table_3.rows()})
# Factors of the sizes of the small rows; other settings are equal.
SCALE = MappingProxyType(
    {"num_layers": 1 / 2, **dict.fromkeys(("d_model", "d_ff", "d_k", "d_v"), 1 / 8)}
)


def read_config(folder: str, name: str) -> ExperimentConfig:
    return config_from_flagfile(f"configs/{folder}/{name}.flags")


def changes(name: str, base: str, folder: str) -> dict[str, float]:
    """Settings of a flagfile that differ from those of the flagfile `base`."""
    before, after = (flatten(read_config(folder, each)) for each in (base, name))
    return {key: after[key] for key in after if after[key] != before[key]}


@pytest.fixture(autouse=True)
def run_in_repository(monkeypatch) -> None:
    """Changes to the repository, because flagfiles include others by relative path."""
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(
    ("folder", "names"),
    [("table3", set(ROWS)), ("table3_small", set(ROWS) - {"big"})],
)
def test_every_row_has_a_flagfile(folder, names) -> None:
    assert {path.stem for path in Path("configs", folder).iterdir()} == names


def test_the_base_row_is_the_base_model_without_averaging() -> None:
    base = flatten(config_from_flagfile("configs/base.flags"))
    row = flatten(read_config("table3", "base"))
    assert {key for key in row if row[key] != base[key]} == OURS
    assert row["average_checkpoints"] == 1
    assert row["score_split"] == "dev"
    for name, value in ROWS["base"].settings.items():
        assert row[name] == value, name


def test_a_row_differs_in_the_settings_of_its_cells() -> None:
    for name in sorted(set(ROWS) - {"base", "e", "big"}):
        assert changes(name, "base", "table3") == ROWS[name].settings, name


def test_row_e_learns_a_position_for_every_token() -> None:
    longest = read_config("table3", "base").data.max_length
    assert changes("e", "base", "table3") == {"learned_positions": longest}


def test_the_big_row_is_the_big_model_without_averaging() -> None:
    big = flatten(config_from_flagfile("configs/big.flags"))
    row = flatten(read_config("table3", "big"))
    assert {key for key in row if row[key] != big[key]} == OURS
    for name, value in ROWS["big"].settings.items():
        assert row[name] == value, name


def test_a_small_row_differs_in_the_same_proportion() -> None:
    for name in sorted(set(ROWS) - {"base", "e", "big"}):
        expected = {
            setting: value * SCALE.get(setting, 1)
            for setting, value in ROWS[name].settings.items()
        }
        assert changes(name, "base", "table3_small") == expected, name


def test_the_small_base_is_the_papers_in_proportion() -> None:
    small = flatten(read_config("table3_small", "base"))
    for name, value in ROWS["base"].settings.items():
        if name != "train_steps":
            assert small[name] == value * SCALE.get(name, 1), name
    longest = small["max_length"]
    assert changes("e", "base", "table3_small") == {"learned_positions": longest}
    assert small["average_checkpoints"] == 1
