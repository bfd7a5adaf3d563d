"""Resources of parallel runs: cores and GPUs are divided, none is used twice."""

import os

import pytest

from t2t_keras.errors import UserError
from t2t_keras.reports.ablation import resources as module
from t2t_keras.reports.ablation.resources import ALL, RunResources, divide_resources


@pytest.fixture
def machine(monkeypatch):
    """Returns a function that fakes the numbers of cores and GPUs of this machine."""

    def pretend(cores: int, gpus: int = 0) -> None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
        found = [f"/dev/nvidia{i}" for i in range(gpus)]
        monkeypatch.setattr(module.glob, "glob", lambda _: found)

    return pretend


def test_one_run_alone_may_use_everything(machine) -> None:
    machine(cores=4, gpus=2)
    assert divide_resources(1) == [ALL]
    assert ALL.environment == {}


def test_cores_are_divided_and_what_is_over_goes_to_the_last(machine) -> None:
    machine(cores=7)
    assert divide_resources(3) == [
        RunResources(cores=(0, 1)),
        RunResources(cores=(2, 3)),
        RunResources(cores=(4, 5, 6)),
    ]


def test_each_run_has_gpus_of_its_own(machine) -> None:
    machine(cores=2, gpus=3)
    one, other = divide_resources(2)
    assert one.environment == {"CUDA_VISIBLE_DEVICES": "0"}
    assert other.environment == {"CUDA_VISIBLE_DEVICES": "1,2"}


def test_gpus_that_are_hidden_stay_hidden(machine, monkeypatch) -> None:
    machine(cores=2, gpus=8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-1a")
    assert [share.gpus for share in divide_resources(2)] == [("5",), ("GPU-1a",)]
    for none in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
        assert [share.gpus for share in divide_resources(2)] == [None, None]


@pytest.mark.parametrize(
    ("cores", "gpus", "named"), [(2, 0, "2 cores"), (8, 2, "2 GPUs")]
)
def test_more_runs_than_can_be_served_are_refused(machine, cores, gpus, named) -> None:
    machine(cores, gpus)
    with pytest.raises(UserError, match=f"--at_once=3, but there are {named} here"):
        divide_resources(3)
