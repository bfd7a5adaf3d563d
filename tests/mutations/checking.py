"""Mutation check of all variants, in parallel, with results saved to a file."""

import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.mutations.mutation import Mutation
from tests.mutations.running import (
    CAUGHT,
    ERROR,
    STAGES,
    SURVIVED,
    Bench,
    Result,
    Stage,
    digest,
    without_parameters,
)

ROOT = Path(__file__).resolve().parents[2]


def check_all(
    variants: Sequence[Mutation],
    *,
    root: Path = ROOT,
    stages: Sequence[Stage] = STAGES,
    jobs: int = 1,
    state: Path | None = None,
) -> list[Result]:
    """Returns the result of each variant, in the order of `variants`.

    Args:
        variants: Variants to check.
        root: Root of the checkout.
        stages: Groups of tests, in the order in which they run.
        jobs: Number of variants checked in parallel.
        state: File of results, from which a stopped check resumes. The results are
            valid for this version of the code only. Default: a file in the temporary
            folder, named after a hash of the code.
    """
    state = state or default_state(root)
    results = _read(state, variants)
    _log(f"{len(variants)} variants, {len(results)} known; results in {state}")
    with tempfile.TemporaryDirectory(prefix="mut-") as folder:
        bench = Bench(root, Path(folder), variants[0].module.partition(".")[0])
        pool = ThreadPoolExecutor(jobs)
        try:
            for number, stage in enumerate(stages):
                earlier = {each.name for each in stages[:number]}
                left = [v for v in variants if _is_open(results.get(v.name), earlier)]
                for result in _run_stage(bench, pool, left, stage):
                    before = results.get(result.name)
                    seconds = result.seconds + (before.seconds if before else 0.0)
                    result = dataclasses.replace(result, seconds=round(seconds, 1))
                    results[result.name] = result
                    _write(state, [result])
            confirmed = _confirm(bench, [results[each.name] for each in variants])
            _write(state, confirmed)
            return confirmed
        except BaseException:
            bench.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _is_open(result: Result | None, earlier: set[str]) -> bool:
    """Returns whether a variant still has to be tested in a stage."""
    if result is None:
        return True
    return result.outcome == SURVIVED and result.stage in earlier


def _run_stage(
    bench: Bench, pool: Executor, variants: Sequence[Mutation], stage: Stage
) -> Iterator[Result]:
    """Yields the result of each variant in a stage, and logs progress."""
    if variants:
        _log(f"{len(variants)} variants: {stage.name} tests")
    start = time.monotonic()
    futures = [pool.submit(bench.check, each, stage) for each in variants]
    for number, future in enumerate(as_completed(futures), start=1):
        result = future.result()
        seconds = (time.monotonic() - start) / number * (len(variants) - number)
        _log(
            f"{number}/{len(variants)} {_line(result)}; about "
            f"{seconds / 60:.0f} min left for these tests"
        )
        yield result


def default_state(root: Path) -> Path:
    """Returns the default file of results for the current code of a checkout."""
    return Path(tempfile.gettempdir()) / f"mutations-{digest(root)[:16]}.jsonl"


def as_table(variants: Sequence[Mutation], results: Iterable[Result]) -> str:
    """Returns the results as a Markdown table, with a summary line below."""
    by_name = {each.name: each for each in variants}
    rows = ["| variant | function | caught by | first failing test | s |"]
    rows += ["| --- | --- | --- | --- | --- |"]
    results = list(results)
    for result in results:
        by = result.stage if result.outcome == CAUGHT else f"**{result.outcome}**"
        test = f"`{result.test.removeprefix('tests/')}`" if result.test else ""
        rows.append(
            f"| {result.name} | `{by_name[result.name].address}` | {by} | "
            f"{' '.join([test, result.note.splitlines()[0] if result.note else ''])} | "
            f"{result.seconds:.0f} |"
        )
    return "\n".join(rows) + f"\n\n{summary(results)}\n"


def summary(results: Sequence[Result]) -> str:
    """Returns a line with the number of variants caught, in total and per stage."""
    caught = [result for result in results if result.outcome == CAUGHT]
    stages = {each.name: 0 for each in STAGES}
    for result in caught:
        stages[result.stage] += 1
    each = ", ".join(f"{count} by {name}" for name, count in stages.items())
    return f"{len(caught)} of {len(results)} caught: {each}."


def _confirm(bench: Bench, results: Sequence[Result]) -> list[Result]:
    """Returns the results, with ERROR where the test fails without the variant too."""
    open_ = [r for r in results if r.outcome == CAUGHT and not r.confirmed]
    tests = sorted({without_parameters(result.test) for result in open_})
    if tests:
        _log(f"running the {len(tests)} tests that failed without any variant")
    failing = bench.find_failing(tests)

    def confirm(result: Result) -> Result:
        if result.outcome != CAUGHT or result.confirmed:
            return result
        if without_parameters(result.test) in failing:
            note = "fails without the variant, too"
            return dataclasses.replace(result, outcome=ERROR, note=note)
        return dataclasses.replace(result, confirmed=True)

    return [confirm(result) for result in results]


def _read(state: Path, variants: Sequence[Mutation]) -> dict[str, Result]:
    """Returns the saved results, without errors, so that those variants run again."""
    if not state.exists():
        return {}
    lines = state.read_text(encoding="utf-8").splitlines()
    saved = {result.name: result for result in (Result(**json.loads(x)) for x in lines)}
    names = {each.name for each in variants}
    return {
        name: result
        for name, result in saved.items()
        if name in names and result.outcome != ERROR
    }


def _write(state: Path, results: Sequence[Result]) -> None:
    with open(state, "a", encoding="utf-8") as file:
        for result in results:
            file.write(json.dumps(dataclasses.asdict(result)) + "\n")


def _line(result: Result) -> str:
    by = f" by {result.stage} tests" if result.outcome == CAUGHT else ""
    note = f" ({result.note.splitlines()[0]})" if result.note else ""
    outcome = f"{result.outcome}{by} {result.test}{note}"
    return f"{result.name}: {outcome}, {result.seconds:.0f} s"


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
