"""Distribution strategy: one device, this machine's devices, or several machines.

tf.distribute implements it. This module selects a strategy and numbers the workers.
TF_CONFIG or Slurm names the workers of several machines.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import collective_all_reduce_strategy
from tensorflow.python.distribute.cluster_resolver.slurm_cluster_resolver import (
    SlurmClusterResolver,
    expand_hostlist,
)

from t2t_keras.errors import UserError

# Below the ephemeral ports of Linux, which start at 32,768. Each of 768 consecutive
# jobs has sixteen ports of its own, so that two jobs can share a node.
_FIRST_PORT, _JOBS, _PORTS_A_JOB = 20_000, 768, 16


def build_strategy(name: str | None, cpu_devices: int = 1) -> tf.distribute.Strategy:
    """Returns a distribution strategy, to be built before anything else is computed.

    Args:
        name: "one", "mirrored" or "multi_worker". Default: several workers if TF_CONFIG
            or Slurm describes them, else all GPUs, else one device.
        cpu_devices: Number of logical devices to split the CPU into, for a rehearsal.

    Raises:
        UserError: If the description of the cluster is invalid, for "mirrored" with
            only one device, or if the CPU cannot be split any more.
    """
    if cpu_devices > 1:
        _split_cpu(cpu_devices)
    if name == "multi_worker" or (name is None and num_workers() > 1):
        return _multi_worker(cpu_devices)
    gpus = tf.config.list_logical_devices("GPU")
    devices = gpus or tf.config.list_logical_devices("CPU")
    names = [device.name for device in devices]
    several = len(gpus) > 1 or cpu_devices > 1
    if name == "mirrored" or (name is None and several):
        if len(names) == 1:
            raise UserError(
                f"--strategy=mirrored needs several devices, and there is only "
                f"{names[0]}. Leave --strategy out, or rehearse with --cpu_devices."
            )
        return tf.distribute.MirroredStrategy(names)
    return tf.distribute.get_strategy()


def num_workers() -> int:
    """Returns the number of processes by TF_CONFIG or Slurm; 1 by default.

    Raises:
        UserError: If TF_CONFIG is invalid.
    """
    if os.environ.get("TF_CONFIG"):
        cluster = _read_tf_config().get("cluster", {})
        return sum(len(cluster.get(job, [])) for job in ("chief", "worker"))
    return num_slurm_tasks()


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process is the one that writes files and logs."""
    return worker_number(strategy) == 0


def worker_number(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of this process, from 0, in the order of replicas."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.task_type:
        return 0
    if resolver.task_type == "chief":
        return 0
    chiefs = resolver.cluster_spec().as_dict().get("chief", ())
    return len(chiefs) + resolver.task_id


def wait_for_all(strategy: tf.distribute.Strategy, number: int = 0) -> bool:
    """Barrier: waits for every process; returns whether all passed the same number.

    Args:
        strategy: The strategy of all processes.
        number: A digest in [0, 2**31) of values that must be equal everywhere.
    """
    if num_processes(strategy) == 1:
        return True

    def sums() -> tuple[Any, Any]:
        context = tf.distribute.get_replica_context()
        mine = tf.constant(number, tf.int64)
        return context.all_reduce(tf.distribute.ReduceOp.SUM, [mine, mine * mine])

    total, squares = tf.function(lambda: strategy.run(sums), autograph=False)()
    total, squares = (
        int(strategy.experimental_local_results(part)[0]) for part in (total, squares)
    )
    # Their variance, times the count squared: 0 if and only if all are equal.
    return strategy.num_replicas_in_sync * squares == total * total


def num_processes(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of processes that train together."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.task_type:
        return 1
    return sum(len(tasks) for tasks in resolver.cluster_spec().as_dict().values())


def _split_cpu(count: int) -> None:
    """Splits the CPU into several logical devices."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
    try:
        tf.config.set_logical_device_configuration(cpu, devices)
    except RuntimeError as error:
        raise UserError(
            f"--cpu_devices={count} must be set before TensorFlow computes anything. "
            f"Train in a new process. (TensorFlow reports: {error})"
        ) from error


def _multi_worker(cpu_devices: int) -> tf.distribute.Strategy:
    resolver: Any = None
    if os.environ.get("TF_CONFIG"):
        _read_tf_config()
    elif in_slurm_step():
        resolver = slurm_resolver()
    else:
        raise UserError(
            "--strategy=multi_worker needs to know the other workers: set TF_CONFIG "
            "on each (docs/training.md has an example), or start them with srun."
        )
    with _use_cpu_devices(cpu_devices):
        return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)


@contextlib.contextmanager
def _use_cpu_devices(count: int) -> Iterator[None]:
    """Makes the strategy use several CPU devices of a worker, as it uses GPUs.

    By default it uses one, and a rehearsal of two hosts with four GPUs each would
    never have two replicas in one process.
    """
    extended = collective_all_reduce_strategy.CollectiveAllReduceExtended
    initialize = extended._initialize_local_devices

    def initialize_cpus(self: Any, resolver: Any, worker: str) -> tuple[Any, str]:
        devices, kind = initialize(self, resolver, worker)
        if kind == "CPU":
            devices = tuple(f"{worker}/device:CPU:{i}" for i in range(count))
        return devices, kind

    extended._initialize_local_devices = initialize_cpus
    try:
        yield
    finally:
        extended._initialize_local_devices = initialize


def _read_tf_config() -> dict[str, Any]:
    """Returns TF_CONFIG, with the entry of this process checked."""
    text = os.environ["TF_CONFIG"]
    try:
        config = json.loads(text)
        task = config["task"]
        workers = config["cluster"][task["type"]]
        is_listed = 0 <= int(task["index"]) < len(workers)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            'TF_CONFIG must be JSON like {"cluster": {"worker": ["host0:2222", '
            '"host1:2222"]}, "task": {"type": "worker", "index": 0}}. Received: '
            f"{text} ({type(error).__name__}: {error})"
        ) from error
    if not is_listed:
        raise UserError(
            f"TF_CONFIG says that this is {task['type']} {task['index']}, but lists "
            f"{len(workers)} of them, counted from 0."
        )
    return config


def in_slurm_step() -> bool:
    """Returns whether srun started this process."""
    return "SLURM_STEP_NODELIST" in os.environ and "SLURM_PROCID" in os.environ


def num_slurm_tasks() -> int:
    """Returns the number of tasks of this srun step; 1 outside of one."""
    # Not SLURM_NTASKS, which may count the tasks of the job: the shell of `salloc` is a
    # step of one task.
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) if in_slurm_step() else 1


def slurm_resolver() -> tf.distribute.cluster_resolver.ClusterResolver:
    """Returns the tasks of this step as workers, in the order of their ranks.

    TensorFlow's own resolver reads them from Slurm's variables, but sorts hosts as
    text, gpu10 before gpu9, while ranks follow the list of nodes. It also counts GPUs
    with nvidia-smi or in CUDA_VISIBLE_DEVICES; this function counts those that
    TensorFlow sees.

    Raises:
        UserError: If Slurm's variables are invalid, if ranks follow another order of
            nodes, or if tasks of a node would share GPUs.
    """
    rank, tasks = int(os.environ["SLURM_PROCID"]), num_slurm_tasks()
    job = int(os.environ.get("SLURM_JOB_ID", "0"))
    try:
        slurm = SlurmClusterResolver(
            port_base=_FIRST_PORT + job % _JOBS * _PORTS_A_JOB,
            # It fails for tasks without a GPU, so each is given one, which is not used.
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
    workers = slurm.cluster_spec().as_dict()["worker"]
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
