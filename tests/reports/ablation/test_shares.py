"""Cores and GPUs are divided among runs, and none is used twice."""

import os

import pytest

from t2t_keras.errors import UserError
from t2t_keras.reports.ablation import shares as module
from t2t_keras.reports.ablation.shares import ALL, Share, equal_shares


@pytest.fixture
def machine(monkeypatch):
    """Makes this machine look as if it had other cores and GPUs."""

    def pretend(cores: int, gpus: int = 0) -> None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
        found = [f"/dev/nvidia{i}" for i in range(gpus)]
        monkeypatch.setattr(module.glob, "glob", lambda _: found)

    return pretend


def test_one_run_alone_may_use_everything(machine) -> None:
    machine(cores=4, gpus=2)
    assert equal_shares(1) == [ALL]
    assert ALL.environment == {}


def test_cores_are_divided_and_what_is_over_goes_to_the_last(machine) -> None:
    machine(cores=7)
    assert equal_shares(3) == [
        Share(cores=(0, 1)),
        Share(cores=(2, 3)),
        Share(cores=(4, 5, 6)),
    ]


def test_each_run_has_gpus_of_its_own(machine) -> None:
    machine(cores=2, gpus=3)
    one, other = equal_shares(2)
    assert one.environment == {"CUDA_VISIBLE_DEVICES": "0"}
    assert other.environment == {"CUDA_VISIBLE_DEVICES": "1,2"}


def test_gpus_that_are_hidden_stay_hidden(machine, monkeypatch) -> None:
    machine(cores=2, gpus=8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-1a")
    assert [share.gpus for share in equal_shares(2)] == [("5",), ("GPU-1a",)]
    for none in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
        assert [share.gpus for share in equal_shares(2)] == [None, None]


@pytest.mark.parametrize(
    ("cores", "gpus", "named"), [(2, 0, "2 cores"), (8, 2, "2 GPUs")]
)
def test_more_runs_than_can_be_served_are_refused(machine, cores, gpus, named) -> None:
    machine(cores, gpus)
    with pytest.raises(UserError, match=f"--at_once=3, but there are {named} here"):
        equal_shares(3)


def test_a_process_that_has_ended_is_no_error() -> None:
    # Process numbers are less than this.
    Share(cores=tuple(os.sched_getaffinity(0))).hold(2**22 + 1)
