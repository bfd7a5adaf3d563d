"""Resources of each run of an ablation: its cores and its GPUs."""

import contextlib
import dataclasses
import glob
import itertools
import os
from collections.abc import Sequence
from typing import TypeVar

from t2t_keras.errors import UserError

_GPUS = "CUDA_VISIBLE_DEVICES"
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class RunResources:
    """Cores and GPUs of one run.

    Attributes:
        cores: Numbers of the cores that it may use; None for all.
        gpus: Names of the GPUs that it may use; None for all.
    """

    cores: tuple[int, ...] | None = None
    gpus: tuple[str, ...] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that limit a process to its GPUs."""
        return {} if self.gpus is None else {_GPUS: ",".join(self.gpus)}

    def pin(self, process: int) -> None:
        """Pins a process and its future children to the cores."""
        if self.cores is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                os.sched_setaffinity(process, self.cores)


ALL = RunResources()


def divide_resources(count: int) -> list[RunResources]:
    """Returns the resources of each of `count` runs at a time.

    A single run has all of them. The last runs get the cores and GPUs left over.

    Raises:
        UserError: If there are fewer cores than runs, or fewer GPUs, but some.
    """
    if count == 1:
        return [ALL]
    cores, gpus = sorted(os.sched_getaffinity(0)), _visible_gpus()
    for name, units in (("cores", cores), ("GPUs", gpus)):
        if 0 < len(units) < count:
            raise UserError(
                f"--at_once={count}, but there are {len(units)} {name} here. Each run "
                f"needs one of its own: give --at_once={len(units)} at most."
            )
    all_gpus = _divide(gpus, count) if gpus else [None] * count
    return [
        RunResources(own_cores, own_gpus)
        for own_cores, own_gpus in zip(_divide(cores, count), all_gpus, strict=True)
    ]


def _visible_gpus() -> list[str]:
    """Returns names of the GPUs that TensorFlow would use, without asking it."""
    named = os.environ.get(_GPUS)
    if named is not None:
        return [name for name in named.split(",") if name and name != "-1"]
    return [str(i) for i in range(len(glob.glob("/dev/nvidia[0-9]*")))]


def _divide(things: Sequence[_T], count: int) -> list[tuple[_T, ...]]:
    """Returns neighbors in `count` groups, as equal as can be."""
    ends = [len(things) * i // count for i in range(count + 1)]
    return [tuple(things[start:end]) for start, end in itertools.pairwise(ends)]
