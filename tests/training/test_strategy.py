"""Which strategy is chosen, and who is who in it."""

import json
from collections.abc import Mapping
from types import MappingProxyType

import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.training import strategy
from t2t_keras.training.strategy import build_strategy, is_chief, num_workers

CLUSTER = MappingProxyType({"worker": ["host0:2222", "host1:2222", "host2:2222"]})


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    for name in ("TF_CONFIG", "SLURM_STEP_NODELIST", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def one_cpu(monkeypatch):
    """As on a machine whose only device is the CPU; tests have two."""
    cpus = tf.config.list_logical_devices("CPU")[:1]
    monkeypatch.setattr(
        tf.config, "list_logical_devices", lambda kind: cpus if kind == "CPU" else []
    )


@pytest.mark.parametrize("name", [None, "one"])
@pytest.mark.usefixtures("one_cpu")
def test_one_device(name) -> None:
    found = build_strategy(name)
    assert found.num_replicas_in_sync == 1
    assert is_chief(found)
    assert strategy.wait_for_all(found, 5)


@pytest.mark.parametrize(("name", "cpu_devices"), [(None, 2), ("mirrored", 1)])
def test_several_devices_are_mirrored(name, cpu_devices, monkeypatch) -> None:
    # The CPU is split already, for all tests.
    monkeypatch.setattr(strategy, "_split_cpu", lambda _: None)
    found = build_strategy(name, cpu_devices)
    assert isinstance(found, tf.distribute.MirroredStrategy)
    assert found.num_replicas_in_sync == 2
    assert is_chief(found)
    assert strategy.num_processes(found) == 1


@pytest.mark.parametrize("name", [None, "one"])
def test_logical_cpus_are_not_mirrored_unasked(name) -> None:
    assert build_strategy(name).num_replicas_in_sync == 1


@pytest.mark.usefixtures("one_cpu")
def test_one_device_cannot_be_mirrored() -> None:
    with pytest.raises(UserError, match="needs several devices, and there is only"):
        build_strategy("mirrored")


def test_several_workers_need_a_cluster() -> None:
    with pytest.raises(UserError, match="set TF_CONFIG on each"):
        build_strategy("multi_worker")


def tf_config(**task) -> str:
    return json.dumps({"cluster": dict(CLUSTER), "task": {"type": "worker", **task}})


WRONG_CONFIGS = (
    ("{", "TF_CONFIG must be JSON like"),
    ("[]", "TF_CONFIG must be JSON like"),
    ('{"cluster": {}}', "TF_CONFIG must be JSON like.*KeyError: 'task'"),
    (tf_config(), "TF_CONFIG must be JSON like.*'index'"),
    (tf_config(index="two"), "TF_CONFIG must be JSON like.*'two'"),
    (tf_config(type="boss", index=0), "TF_CONFIG must be JSON like.*'boss'"),
    (tf_config(index=3), "this is worker 3, but lists 3 of them, counted from 0"),
    (tf_config(index=-1), "this is worker -1, but lists 3"),
)


def test_a_wrong_tf_config_is_refused(monkeypatch) -> None:
    for text, message in WRONG_CONFIGS:
        monkeypatch.setenv("TF_CONFIG", text)
        name = None if "cluster" in text and "task" in text else "multi_worker"
        with pytest.raises(UserError, match=message):
            build_strategy(name)
            pytest.fail(f"{text} was taken")


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ({}, 1),
        ({"TF_CONFIG": tf_config(index=1)}, 3),
        (
            {
                "SLURM_STEP_NUM_TASKS": "4",
                "SLURM_STEP_NODELIST": "node[1-4]",
                "SLURM_PROCID": "2",
            },
            4,
        ),
    ],
)
def test_workers_are_counted(monkeypatch, variables, count) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert num_workers() == count


class FakeStrategy:
    """Of a cluster, as the task that is named."""

    def __init__(self, jobs: Mapping, task_type: str, task_id: int):
        spec = tf.train.ClusterSpec(dict(jobs))

        class Resolver:
            def __init__(self):
                self.task_type, self.task_id = task_type, task_id

            def cluster_spec(self):
                return spec

        self.cluster_resolver = Resolver()


def test_who_is_who() -> None:
    for jobs, task, number, processes in (
        (CLUSTER, ("worker", 0), 0, 3),
        (CLUSTER, ("worker", 1), 1, 3),
        ({"chief": ["c:1"], **CLUSTER}, ("chief", 0), 0, 4),
        ({"chief": ["c:1"], **CLUSTER}, ("worker", 0), 1, 4),
        ({"chief": ["c:1"], **CLUSTER}, ("worker", 2), 3, 4),
    ):
        fake = FakeStrategy(jobs, *task)
        assert strategy.worker_number(fake) == number, (jobs, task)
        assert is_chief(fake) == (number == 0), (jobs, task)
        assert strategy.num_processes(fake) == processes, (jobs, task)
