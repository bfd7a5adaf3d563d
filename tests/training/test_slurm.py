"""Which workers there are, and which one this is, as Slurm's variables have it."""

import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.training.slurm import num_slurm_tasks, slurm_resolver


@pytest.fixture
def step(monkeypatch):
    """Sets the variables that srun gives to a task of a step."""
    # As on most hosts without a GPU: nobody says which are visible.
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
    """Job 770 is the third of its round of 768: 20,000 + 2 x 16."""
    for rank, node in ((0, "gpu9"), (1, "gpu10"), (2, "gpu11"), (3, "gpu100")):
        step("gpu[9-11,100]", "1(x4)", 4, rank, node)
        resolver = slurm_resolver()
        assert resolver.cluster_spec().as_dict() == {
            "worker": ["gpu9:20032", "gpu10:20032", "gpu11:20032", "gpu100:20032"]
        }, rank
        assert (resolver.task_type, resolver.task_id) == ("worker", rank), rank
        assert resolver.rpc_layer == "grpc", rank


def test_tasks_of_a_node_have_ports_of_their_own(step) -> None:
    step("b,a[08-09]", "2,1(x2)", 4, 1, "b")
    assert slurm_resolver().cluster_spec().as_dict() == {
        "worker": ["b:20032", "b:20033", "a08:20032", "a09:20032"]
    }


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
        # Inside sbatch, but not started by srun: one process as ever.
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
    ],
)
def test_tasks_are_counted(monkeypatch, variables, count) -> None:
    for name in ("SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert num_slurm_tasks() == count
