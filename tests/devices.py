"""Distribution strategies on the two logical CPUs of the tests, and fake ones."""

import functools
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace

import tensorflow as tf

TWO = MappingProxyType({"worker": ["host0:2222", "host1:2222"]})


@functools.cache
def cpu_strategy(devices: int) -> tf.distribute.Strategy:
    """Strategy that replicates on `devices` logical CPUs, 1 or 2."""
    # Cached: two mirrored strategies in one process use the same keys for their
    # collective operations, and fail if the shapes differ.
    if devices == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(devices)])


def fake_strategy(
    task_id: int, task_type: str = "worker", jobs: Mapping = TWO
) -> SimpleNamespace:
    """Fake strategy of a cluster, by default of two workers, seen from a task."""
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(dict(jobs)), task_type=task_type, task_id=task_id
    )
    return SimpleNamespace(cluster_resolver=resolver)
