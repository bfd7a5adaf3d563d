"""Writes the programs of the GPU kit, most important first.

    python -m benchmarks.gpu.write --device=gpu --out=DIR

Each program is a folder with its StableHLO text, a manifest and the values of its
features, which `benchmarks.gpu.run` needs nothing else for than JAX.
"""

import argparse
import dataclasses
import itertools
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.gpu.manifest import pattern
from benchmarks.gpu.programs import Program, write_search, write_update
from benchmarks.product_step import CONFIGS, load_config

LARGEST_MEBIBYTES = 60
# Most tokens of a search that is also computed on this CPU, in seconds.
MOST_CHECKED = 1_000


def main(argv: Sequence[str] | None = None) -> None:
    """Writes all programs that the flags ask for."""
    args = _parse(argv)
    programs = list(_list_programs(args))
    if not programs:
        sys.exit(
            "--only must match the name of a program, such as update-base-bfloat16. "
            f"Received: {args.only.pattern}"
        )
    failed = []
    for number, (write, program) in enumerate(programs):
        # Their order by name is that of importance.
        program = dataclasses.replace(program, name=f"{number:02}-{program.name}")
        # A process each: TensorFlow keeps the memory of what it has traced.
        process = multiprocessing.get_context("fork").Process(
            target=_write, args=(write, program, args.out / program.name)
        )
        process.start()
        process.join()
        if process.exitcode:
            failed.append(program.name)
    files = [path for path in args.out.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 2**20
    print(f"{args.out}: {size:.1f} MiB")
    if failed:
        sys.exit(f"Not written, for the reasons above: {', '.join(failed)}")
    if size > LARGEST_MEBIBYTES:
        sys.exit(
            f"The programs must have {LARGEST_MEBIBYTES} MiB at most. Received: "
            f"{size:.1f} MiB. Write fewer of them."
        )


def _write(write: Callable, program: Program, folder: Path) -> None:
    start = time.perf_counter()
    manifest = write(program, folder)
    seconds = time.perf_counter() - start
    print(
        f"{manifest.name}: {len(manifest.arguments)} arguments, "
        f"{manifest.flops / 1e12:.3g} TFLOP a run, written in {seconds:.0f} s",
        flush=True,
    )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    names = sorted(path.stem for path in CONFIGS.glob("*.flags"))
    add = parser.add_argument
    add("--out", type=Path, required=True)
    add("--device", choices=("cpu", "gpu"), default="gpu", help="Choices of the step.")
    add("--configs", type=_names(names), default=["base", "big"])
    precisions = ["bfloat16", "float32"]
    add("--precisions", type=_names(precisions), default=precisions)
    add("--vocabulary_size", type=_count, default=37_000)
    add("--rows", type=_count, default=390, help="Rows of an update.")
    add("--length", type=_count, default=64, help="Tokens per row and side.")
    add("--packed_length", type=_count, default=256, help="Tokens per packed row.")
    add(
        "--checked_rows", type=_count, default=16, help="Rows computed on the CPU, too."
    )
    add("--searches", type=_sizes, default="32x25,256x25,1x25,32x64,256x64,1x64")
    add("--beam_size", type=_count, default=4)
    add("--only", type=pattern, default="", help="Pattern of the names to write.")
    return parser.parse_args(argv)


def _names(known: Sequence[str]):
    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"expected some of {', '.join(known)}, not {text!r}"
                )
        return names

    return parse


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, not {text}")
    return int(text)


def _sizes(text: str) -> list[tuple[int, int]]:
    """Returns (sentences, tokens) for each part of "32x25,1x25"."""
    pairs = [part.split("x") for part in text.split(",") if part]
    if any(len(pair) != 2 for pair in pairs):
        raise argparse.ArgumentTypeError(f"expected such as 32x25,1x25, not {text}")
    return [(_count(rows), _count(length)) for rows, length in pairs]


def _list_programs(args: argparse.Namespace) -> Iterator[tuple]:
    """Yields each program with the function that writes it, most important first."""
    tokens = args.rows * args.length
    packed_rows = max(1, tokens // args.packed_length)
    first, *others = args.precisions

    def searches(precision: str, sizes: list[tuple[int, int]]) -> Iterator[tuple]:
        config = args.configs[0]
        for rows, length in sizes:
            name = f"search-{config}-{precision}-{rows}x{length}"
            checked = rows * length <= MOST_CHECKED
            yield (
                write_search,
                _make(args, name, (config, precision), (rows, length), checked=checked),
            )

    def updates(
        kind: str, precisions: list[str], rows: int, length: int
    ) -> Iterator[tuple]:
        options = {"packed": kind == "packed", "checked": kind == "check"}
        for precision, config in itertools.product(precisions, args.configs):
            name = f"{kind}-{config}-{precision}"
            yield (
                write_update,
                _make(args, name, (config, precision), (rows, length), **options),
            )

    everything = itertools.chain(
        updates("update", [first], args.rows, args.length),
        searches(first, args.searches[:2]),
        updates("check", args.precisions, args.checked_rows, args.length),
        updates("update", others, args.rows, args.length),
        updates("packed", [first], packed_rows, args.packed_length),
        searches(first, args.searches[2:]),
        *(searches(precision, args.searches) for precision in others),
        updates("packed", others, packed_rows, args.packed_length),
    )
    return (each for each in everything if args.only.search(each[1].name))


def _make(
    args: argparse.Namespace,
    name: str,
    settings: tuple[str, str],
    shape: tuple[int, int],
    **options: bool,
) -> Program:
    """Returns a program with a flagfile and precision, and with rows and a length."""
    config_name, precision = settings
    rows, length = shape
    config = load_config(config_name, precision=precision)
    data = dataclasses.replace(config.data, vocabulary_size=args.vocabulary_size)
    return Program(
        name=name,
        config_name=config_name,
        config=dataclasses.replace(config, data=data),
        device=args.device,
        rows=rows,
        source_length=length,
        target_length=length,
        beam_size=args.beam_size,
        **options,
    )


if __name__ == "__main__":
    main()
