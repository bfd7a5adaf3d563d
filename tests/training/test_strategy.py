"""Distribution strategy: choice of the strategy, numbers and roles of workers."""

import json
from types import MappingProxyType

import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.training import strategy
from t2t_keras.training.strategy import (
    build_strategy,
    is_chief,
    num_workers,
    slurm_resolver,
)
from tests.devices import fake_strategy

CLUSTER = MappingProxyType({"worker": ["host0:2222", "host1:2222", "host2:2222"]})


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    for name in ("TF_CONFIG", "SLURM_STEP_NODELIST", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def one_cpu(monkeypatch):
    """Simulates a machine with a single CPU device; tests have two."""
    cpus = tf.config.list_logical_devices("CPU")[:1]
    monkeypatch.setattr(
        tf.config, "list_logical_devices", lambda kind: cpus if kind == "CPU" else []
    )


@pytest.mark.parametrize("name", [None, "one"])
@pytest.mark.usefixtures("one_cpu")
def test_one_device(name) -> None:
    built = build_strategy(name)
    assert built.num_replicas_in_sync == 1
    assert is_chief(built)
    assert strategy.wait_for_all(built, 5)


def test_the_cpu_cannot_be_split_once_tensorflow_has_computed() -> None:
    tf.zeros(1) + 1
    with pytest.raises(UserError, match=r"--cpu_devices=7 .* in a new process"):
        build_strategy(None, 7)


@pytest.mark.parametrize(("name", "cpu_devices"), [(None, 2), ("mirrored", 1)])
def test_several_devices_are_mirrored(name, cpu_devices, monkeypatch) -> None:
    # conftest.py has already split the CPU.
    monkeypatch.setattr(strategy, "_split_cpu", lambda _: None)
    built = build_strategy(name, cpu_devices)
    assert isinstance(built, tf.distribute.MirroredStrategy)
    assert built.num_replicas_in_sync == 2
    assert is_chief(built)
    assert strategy.num_processes(built) == 1


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


def test_number_and_role_of_each_worker() -> None:
    for jobs, task, number, processes in (
        (CLUSTER, ("worker", 0), 0, 3),
        (CLUSTER, ("worker", 1), 1, 3),
        ({"chief": ["c:1"], **CLUSTER}, ("chief", 0), 0, 4),
        ({"chief": ["c:1"], **CLUSTER}, ("worker", 0), 1, 4),
        ({"chief": ["c:1"], **CLUSTER}, ("worker", 2), 3, 4),
    ):
        fake = fake_strategy(task[1], task[0], jobs)
        assert strategy.worker_number(fake) == number, (jobs, task)
        assert is_chief(fake) == (number == 0), (jobs, task)
        assert strategy.num_processes(fake) == processes, (jobs, task)


@pytest.fixture
def step(monkeypatch):
    """Returns a function that sets the variables srun gives to a task of a step."""
    # As on most hosts without GPUs: the variables for visible GPUs are not set.
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_GPUS_PER_TASK"):
        monkeypatch.delenv(name, raising=False)

    def set_variables(nodes: str, tasks: str, count: int, rank: int, node: str):
        for name, value in {
            "SLURM_JOB_ID": "770",
            "SLURM_STEP_NODELIST": nodes,
            "SLURM_STEP_TASKS_PER_NODE": tasks,
            "SLURM_STEP_NUM_TASKS": str(count),
            "SLURM_PROCID": str(rank),
            "SLURMD_NODENAME": node,
        }.items():
            monkeypatch.setenv(name, value)

    return set_variables


def test_workers_are_in_the_order_of_ranks(step) -> None:
    """The port follows from the job number: 20,000 + (770 mod 768) x 16."""
    for rank, node in ((0, "gpu9"), (1, "gpu10"), (2, "gpu11"), (3, "gpu100")):
        step("gpu[9-11,100]", "1(x4)", 4, rank, node)
        resolver = slurm_resolver()
        assert resolver.cluster_spec().as_dict() == {
            "worker": ["gpu9:20032", "gpu10:20032", "gpu11:20032", "gpu100:20032"]
        }, rank
        assert (resolver.task_type, resolver.task_id) == ("worker", rank), rank
        assert resolver.rpc_layer == "grpc", rank


def test_ranks_that_go_round_the_nodes_are_refused(step) -> None:
    """With srun --distribution=cyclic the second task is on the second node."""
    step("gpu[9-10]", "2(x2)", 4, 1, "gpu10")
    with pytest.raises(
        UserError, match=r"task 1 runs on gpu10, .* would be on gpu9. St"
    ):
        slurm_resolver()


def test_a_step_that_is_not_described_is_refused(step, monkeypatch) -> None:
    step("gpu[9-10]", "1(x2)", 3, 0, "gpu9")
    with pytest.raises(UserError, match="not describe the workers: Requested 3 tasks"):
        slurm_resolver()
    monkeypatch.delenv("SLURM_STEP_TASKS_PER_NODE")
    with pytest.raises(UserError, match="SLURM_STEP_TASKS_PER_NODE not found"):
        slurm_resolver()


def test_gpus_are_those_that_tensorflow_sees(step, monkeypatch) -> None:
    gpus = [tf.config.PhysicalDevice(f"GPU:{i}", "GPU") for i in range(3)]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: gpus)
    step("gpu[9-10]", "1(x2)", 2, 0, "gpu9")
    assert slurm_resolver().num_accelerators() == {"GPU": 3}
    step("gpu9", "2", 2, 0, "gpu9")
    with pytest.raises(UserError, match=r"on the same GPUs\. Start one a node"):
        slurm_resolver()
    monkeypatch.setenv("SLURM_GPUS_PER_TASK", "3")
    assert slurm_resolver().num_accelerators() == {"GPU": 3}


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ({}, 1),
        # Inside sbatch, but not started by srun: one process.
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, 1),
        # The shell of `salloc` is a step of one task.
        (
            {
                "SLURM_NTASKS": "4",
                "SLURM_PROCID": "0",
                "SLURM_STEP_NODELIST": "gpu9",
                "SLURM_STEP_NUM_TASKS": "1",
            },
            1,
        ),
        (
            {
                "SLURM_PROCID": "2",
                "SLURM_STEP_NODELIST": "gpu[9-12]",
                "SLURM_STEP_NUM_TASKS": "4",
            },
            4,
        ),
        ({"TF_CONFIG": tf_config(index=1)}, 3),
    ],
)
def test_workers_are_counted(monkeypatch, variables, count) -> None:
    for name in ("SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert num_workers() == count
