"""The workers as Slurm lists them: their hosts, their ports, and which one this is."""

import os

import tensorflow as tf
from tensorflow.python.distribute.cluster_resolver.slurm_cluster_resolver import (
    SlurmClusterResolver,
    expand_hostlist,
)

from t2t_keras.errors import UserError

# Below the ports that Linux gives away by itself, from 32,768 on; of 768 jobs in a
# row each has sixteen to itself, so that two may share a node.
_FIRST_PORT, _JOBS, _PORTS_A_JOB = 20_000, 768, 16


def in_slurm_step() -> bool:
    """Returns whether srun started this process."""
    return "SLURM_STEP_NODELIST" in os.environ and "SLURM_PROCID" in os.environ


def num_slurm_tasks() -> int:
    """Returns how many processes srun started with this one; 1 if it did not."""
    # SLURM_NTASKS may be of the job: in the shell of `salloc`, a step of one task.
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) if in_slurm_step() else 1


def slurm_resolver() -> tf.distribute.cluster_resolver.ClusterResolver:
    """Returns the tasks of this step as workers, in the order of their ranks.

    TensorFlow's own resolver reads them from Slurm's variables, but sorts hosts as
    text, gpu10 before gpu9, where ranks follow the list of nodes. And it counts GPUs
    with nvidia-smi, or in CUDA_VISIBLE_DEVICES: here those that TensorFlow sees count.

    Raises:
        UserError: If Slurm's variables are not what they should be, if ranks go round
            the nodes in another order, or if tasks of a node would share GPUs.
    """
    rank, tasks = int(os.environ["SLURM_PROCID"]), num_slurm_tasks()
    job = int(os.environ.get("SLURM_JOB_ID", "0"))
    try:
        found = SlurmClusterResolver(
            port_base=_FIRST_PORT + job % _JOBS * _PORTS_A_JOB,
            # It fails where a task has none, so each gets one that is not asked for.
            gpus_per_node=tasks,
            gpus_per_task=1,
            auto_set_gpu=False,
        )
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"Slurm's variables do not describe the workers: {error}. Start them with "
            "srun, or set TF_CONFIG on each (docs/training.md has an example)."
        ) from error
    nodes = expand_hostlist(os.environ["SLURM_STEP_NODELIST"])
    workers = found.cluster_spec().as_dict()["worker"]
    workers.sort(key=lambda address: nodes.index(_host(address)))
    _check_node(rank, workers)
    gpus = len(tf.config.list_physical_devices("GPU"))
    _check_gpus(gpus, len(workers) > len(nodes))
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": workers}),
        task_type="worker",
        task_id=rank,
        num_accelerators={"GPU": gpus},
        rpc_layer="grpc",
    )


def _check_node(rank: int, workers: list[str]) -> None:
    node = os.environ.get("SLURMD_NODENAME")
    if node and _host(workers[rank]) != node:
        raise UserError(
            f"Slurm's task {rank} runs on {node}, but by the list of nodes "
            f"({os.environ['SLURM_STEP_NODELIST']}) it would be on "
            f"{_host(workers[rank])}. Start the tasks node by node: "
            "srun --distribution=block, and no list of hosts in another order."
        )


def _check_gpus(gpus: int, nodes_shared: bool) -> None:
    if gpus and nodes_shared and "SLURM_GPUS_PER_TASK" not in os.environ:
        raise UserError(
            "Several tasks of a node would compute on the same GPUs. Start one a node, "
            "which uses all of them (srun --ntasks-per-node=1), or give each its own "
            "(--gpus-per-task)."
        )


def _host(address: str) -> str:
    return address.rpartition(":")[0]
