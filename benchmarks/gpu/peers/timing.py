"""Variants of a peer, timed one after the other, on a GPU if there is one."""

import argparse
import gc
import itertools
import resource
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.gpu.manifest import Manifest
from benchmarks.gpu.results import Results, read

Run = Callable[[], Any]
# A name and a function that makes the runs.
Variant = tuple[str, Callable[[], Run]]

# Runs between the first, which compiles, and those timed. With CUDA graphs, the second
# run is recorded and the third is the first to replay.
WARM_UP = 3


def prepare_device() -> Any:
    """Returns PyTorch's device: a GPU, with TensorFloat-32 as in XLA, or the CPU."""
    import torch

    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.set_float32_matmul_precision("high")
    return torch.device("cuda")


def time_variants(
    variants: Iterable[Variant],
    args: argparse.Namespace,
    manifest: Manifest,
    versions: dict[str, str | None],
    describe: Callable[[Any, Any], dict[str, Any]] = lambda first, last: {},
) -> None:
    """Times variants in order and adds a line for each, also if it fails.

    It leaves out variants that have been timed before.

    Args:
        variants: The variants, the most promising first.
        args: Of `arguments.parse`.
        manifest: Description of the program.
        versions: Versions of libraries.
        describe: Returns further figures from the results of the first and last run.

    Raises:
        SystemExit: If there must be a GPU, and is none.
    """
    import torch

    if args.platform == "gpu" and not torch.cuda.is_available():
        raise SystemExit(
            "--platform=gpu: PyTorch must find the GPU. Received: torch "
            f"{torch.__version__}, for CUDA {torch.version.cuda}, which finds none."
        )
    deadline = time.monotonic() + args.seconds
    known = read([args.out])
    for name, make_run in variants:
        timed = "run_seconds" in known.get((manifest.name, name), ())
        if args.only not in name or timed:
            continue
        if time.monotonic() >= deadline:
            break
        results = Results(args.out, program=manifest.name, by=name)
        try:
            figures, first, last = _time_runs(make_run, args.runs)
            median = figures["run_seconds"]
            results.add(
                **figures,
                sentences_per_second=manifest.rows / median,
                tokens_per_second=manifest.rows * manifest.target_length / median,
                **describe(first, last),
                versions=versions,
            )
        except Exception as error:
            # The next variant may need less memory, or no compiler.
            results.add(error=f"{type(error).__name__}: {error}"[:2000])
        _free_memory()


def _time_runs(
    make_run: Callable[[], Run], count: int
) -> tuple[dict[str, Any], Any, Any]:
    """Returns the figures of `count` runs and the results of the first and last."""
    import torch

    has_gpu = torch.cuda.is_available()
    run = make_run()
    start = time.perf_counter()
    first = run()
    if has_gpu:
        torch.cuda.synchronize()
    compile_seconds = time.perf_counter() - start
    if has_gpu:
        # Without what autotuning allocated.
        torch.cuda.reset_peak_memory_stats()
    for _ in range(WARM_UP):
        run()
    seconds, last = (_time_on_gpu if has_gpu else _time_on_cpu)(run, count)
    if has_gpu:
        peak_bytes = torch.cuda.max_memory_allocated()
    else:
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figures = {
        "compile_seconds": compile_seconds,
        "run_seconds": statistics.median(seconds),
        "best_run_seconds": min(seconds),
        "peak_gigabytes": peak_bytes / 1e9,
        "device": torch.cuda.get_device_name() if has_gpu else "cpu",
    }
    return figures, first, last


def _time_on_gpu(run: Run, count: int) -> tuple[list[float], Any]:
    """Returns the times of runs on the GPU, which never waits for this process."""
    import torch

    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    last = None
    for event in events[1:]:
        last = run()
        event.record()
    torch.cuda.synchronize()
    pairs = itertools.pairwise(events)
    return [start.elapsed_time(end) / 1e3 for start, end in pairs], last


def _time_on_cpu(run: Run, count: int) -> tuple[list[float], Any]:
    seconds, last = [], None
    for _ in range(count):
        start = time.perf_counter()
        last = run()
        seconds.append(time.perf_counter() - start)
    return seconds, last


def _free_memory() -> None:
    """Frees the memory of a variant that nothing refers to."""
    import torch

    torch.compiler.reset()
    gc.collect()
    torch.cuda.empty_cache()  # without a GPU it does nothing
