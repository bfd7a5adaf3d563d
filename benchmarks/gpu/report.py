"""Tables of the results of one or more runs of the GPU kit, as Markdown.

    python -m benchmarks.gpu.report DIR2 ...

The tables of each folder begin with its card, driver, versions and date.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.manifest import SEARCH, UPDATE
from benchmarks.gpu.results import OURS, RESULTS_FILE, read

Figures = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the tables of each folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR2")
    args = parser.parse_args(argv)
    for folder in args.folders:
        path = folder / RESULTS_FILE
        if not path.is_file():
            raise SystemExit(
                f"There is no {path}. Give folders that benchmarks.gpu.run wrote."
            )
        print(make_report(read([path])))


def make_report(joined: dict[tuple[str, str], Figures]) -> str:
    """Returns the tables of one machine's results.

    Args:
        joined: Figures by program and implementation.
    """
    ours = {name: one for (name, by), one in joined.items() if by == OURS}
    kinds = {name: one["kind"] for name, one in ours.items() if "kind" in one}
    rows = {
        key: figures
        for key, figures in sorted(joined.items())
        if "run_seconds" in figures and key[0] in kinds and not _is_check(ours[key[0]])
    }
    ceilings = {
        (one["config"], one["precision"]): one["ceiling"]
        for one in ours.values()
        if "ceiling" in one
    }
    speeds = {
        kind: [
            _speed_row(key, one, ours[key[0]], ceilings)
            for key, one in rows.items()
            if kinds[key[0]] == kind
        ]
        for kind in (UPDATE, SEARCH)
    }
    tables = (
        ("Updates", _SPEED_HEADER, speeds[UPDATE]),
        ("Searches", _SPEED_HEADER, speeds[SEARCH]),
        ("Trainings", _TRAINING_HEADER, _training_rows(ours)),
        ("Attention alone, by JAX", _ATTENTION_HEADER, _attention_rows(joined)),
        ("Relative differences", _DIFFERENCE_HEADER, [*_difference_rows(ours)]),
        ("Failed", _FAILURE_HEADER, [*_failure_rows(joined)]),
    )
    parts = [_describe_machine(joined)]
    for title, header, lines in tables:
        if lines:
            parts.append(f"{title}:\n\n{_table(header, lines)}")
    for name, one in ours.items():
        if "seconds_by_kind" in one:
            parts.append(_profile(name, one))
    return "\n\n".join(parts) + "\n"


_SPEED_HEADER = (
    "program",
    "by",
    "ms",
    "median (best), waited for",
    "tokens/s",
    "ours is faster",
    "TFLOP/s",
    "of products",
    "of data sheet",
    "GB",
    "compiled in s",
)


_TRAINING_HEADER = (
    "training",
    "updates",
    "seconds",
    "dev loss",
    "of the average",
    "compiled in s",
)
_ATTENTION_HEADER = ("program", "forward and backward", "ms")
_DIFFERENCE_HEADER = ("program", "compared with", "loss or log p", "gradient norm")
_FAILURE_HEADER = ("program", "by", "why")


def _is_check(figures: Figures) -> bool:
    """Returns whether a program is there for its outputs, not for its speed."""
    return figures["kind"] == UPDATE and bool(figures.get("expected"))


def _describe_machine(joined: dict[tuple[str, str], Figures]) -> str:
    machine = joined.get(("", "machine"), {})
    cards = ", ".join(machine.get("cards", ()))
    devices = {one["device"] for one in joined.values() if "device" in one}
    versions = {
        f"{name} {version}"
        for one in joined.values()
        for name, version in one.get("versions", {}).items()
    }
    commits = {one["commit"] for one in joined.values() if "commit" in one}
    return (
        f"{machine.get('date', 'no date')}, commit {', '.join(sorted(commits))}, "
        f"{cards or ', '.join(sorted(devices))}; {', '.join(sorted(versions))}:"
    )


def _speed_row(
    key: tuple[str, str],
    figures: Figures,
    ours: Figures,
    ceilings: dict[tuple[str, str], float],
) -> list[str]:
    name, by = key
    # Runs that are not waited for, as all runs of peers.
    seconds = figures.get("unwaited_run_seconds", figures["run_seconds"])
    waited = f"{1e3 * figures['run_seconds']:.2f}"
    waited += f" ({1e3 * figures['best_run_seconds']:.2f})"
    rate = ours["flops"] / seconds
    ceiling = ceilings.get((ours["config"], ours["precision"]))
    sheet = ours.get("data_sheet")
    own = ours.get("unwaited_run_seconds")
    return [
        name,
        by,
        f"{1e3 * seconds:.2f}",
        waited if by == OURS else "",
        f"{ours['tokens'] / seconds:,.0f}",
        "" if by == OURS or own is None else f"{seconds / own:.2f}",
        f"{rate / 1e12:.3g}",
        f"{rate / ceiling:.0%}" if ceiling else "",
        f"{rate / sheet:.0%}" if sheet else "",
        f"{figures['peak_gigabytes']:.2f}",
        f"{figures['compile_seconds']:.0f}",
    ]


def _training_rows(ours: dict[str, Figures]) -> list[list[str]]:
    return [
        [
            name,
            f"{one['step']:,} of {one['train_steps']:,}",
            f"{one['seconds']:.1f}",
            _number(one, "dev_loss"),
            _number(one, "averaged_dev_loss"),
            f"{one['compile_seconds']:.0f}",
        ]
        for name, one in sorted(ours.items())
        if one.get("kind") == "training" and "step" in one
    ]


def _attention_rows(joined: dict[tuple[str, str], Figures]) -> list[list[str]]:
    return [
        [name, by, f"{1e3 * one['attention_seconds']:.3f}"]
        for (name, by), one in sorted(joined.items())
        if "attention_seconds" in one
    ]


def _difference_rows(ours: dict[str, Figures]) -> Iterable[list[str]]:
    """Yields how outputs differ: from the CPU's, and of precisions at full size."""
    exact = {
        _task(one): one
        for one in ours.values()
        if one.get("precision") == "float32" and not one.get("expected")
    }
    for name, one in ours.items():
        main = "loss" if one.get("kind") == UPDATE else "log_prob"
        if f"{main}_difference" in one:
            norm = one.get("gradient_norm_difference")
            yield [
                name,
                "float32, CPU",
                f"{one[f'{main}_difference']:.1e}",
                "" if norm is None else f"{norm:.1e}",
            ]
        elif one.get("precision") != "float32" and main in exact.get(_task(one), {}):
            reference = exact[_task(one)]
            norms = one.get("gradient_norm"), reference.get("gradient_norm")
            yield [
                name,
                "float32, same card",
                f"{one[main] / reference[main] - 1:.1e}",
                "" if None in norms else f"{norms[0] / norms[1] - 1:.1e}",
            ]


def _failure_rows(joined: dict[tuple[str, str], Figures]) -> Iterable[list[str]]:
    """Yields what is not known, and why."""
    for key, one in sorted(joined.items()):
        reason = None
        if not one.keys() & {"complete", "run_seconds", "attention_seconds"}:
            reason = one.get("error")
        if "profile_error" in one and "seconds_by_kind" not in one:
            reason = f"profile: {one['profile_error']}"
        if reason is not None:
            yield [*key, " ".join(reason.replace("|", "/").split())]


def _task(figures: Figures) -> tuple:
    """Returns what a program computes, except for its precision."""
    names = ("kind", "config", "rows", "source_length", "target_length", "packed")
    return tuple(figures.get(name) for name in names)


def _number(figures: Figures, name: str) -> str:
    return f"{figures[name]:.4f}" if name in figures else ""


def _profile(name: str, figures: Figures) -> str:
    kinds, kernels = figures["seconds_by_kind"], figures["longest_kernels"]
    total = sum(kinds.values())
    rows = [
        [kind, f"{1e3 * seconds:.3f}", f"{seconds / total:.0%}"]
        for kind, seconds in kinds.items()
    ]
    longest = [[text, f"{1e3 * seconds:.3f}"] for text, seconds in kernels]
    return (
        f"{name}, time of kernels:\n\n"
        + _table(("kind", "ms", "share"), rows)
        + "\n\n"
        + _table(("kernel", "ms"), longest)
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
