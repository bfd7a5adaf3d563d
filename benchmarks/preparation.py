"""Speed and memory of `prepare`, as a whole, in parts, and by Apache Beam.

    python -m benchmarks.preparation --source=train.en --target=train.de
    python -m benchmarks.preparation --source=train.en --target=train.de --copies=35
    python -m benchmarks.preparation … --vocabulary_file=v.model --parts=1,4,16 --beam

Prepares records of the text in each way, one after another, with all cores each. With
--copies the text is repeated, with the number of the copy after each line. Prints the
rows of a Markdown table: pairs/s of all steps together, the memory of the largest
process, and a digest of all files, which must be equal. Needs the extra `beam` for
--beam.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_BEAM = (
    "--runner=DirectRunner --direct_num_workers={cores} "
    "--direct_running_mode=multi_processing"
)
# Prints the largest memory, in kilobytes, of any process that it has waited for.
_MEASURED = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=sys.stderr).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""


def main(argv: Sequence[str]) -> int:
    """Prints a row for each way; returns 1 if the records differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--vocabulary_file", type=Path, default=None)
    parser.add_argument("--vocabulary_size", type=int, default=8_000)
    parser.add_argument("--pairs_per_shard", type=int, default=50_000)
    parser.add_argument("--parts", default="1,4,16")
    parser.add_argument("--filter", default="")
    parser.add_argument("--beam", action="store_true")
    args = parser.parse_args(argv)
    print("| way | pairs/s | largest process | digest |\n| --- | --- | --- | --- |")
    digests = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs, flags = _write_text(folder, args)
        for way, steps in _ways(args):
            output = folder / way.replace(" ", "_")
            begin, memory = time.perf_counter(), 0
            for step in steps:
                memory = max(memory, _prepare(f"--output={output}", *flags, *step))
            seconds = time.perf_counter() - begin
            digest = _digest(output)
            digests.add(digest)
            print(
                f"| {way} | {pairs / seconds:,.0f} | {memory / 1e6:.2f} GB | "
                f"{digest[:12]} |",
                flush=True,
            )
    return int(len(digests) > 1)


def _write_text(folder: Path, args: argparse.Namespace) -> tuple[int, list[str]]:
    """Writes the text; returns the number of its pairs, and the flags of all ways."""
    pairs = 0
    for path, name in ((args.source, "train.source"), (args.target, "train.target")):
        lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
        with open(folder / name, "wb") as file:
            for copy in range(args.copies):
                number = b" %d" % copy if args.copies > 1 else b""
                file.writelines(line + number + b"\n" for line in lines)
        pairs = len(lines) * args.copies
    flags = [
        f"--train_source={folder / 'train.source'}",
        f"--train_target={folder / 'train.target'}",
        f"--vocabulary_size={args.vocabulary_size}",
        f"--pairs_per_shard={args.pairs_per_shard}",
    ]
    if args.vocabulary_file:
        flags.append(f"--vocabulary_file={args.vocabulary_file.absolute()}")
    if args.filter:
        flags.append(f"--filter={args.filter}")
    return pairs, flags


def _ways(args: argparse.Namespace) -> Iterator[tuple[str, list[list[str]]]]:
    """Yields the name of each way, and the flags of its steps."""
    yield "one process", [[]]
    for parts in map(int, args.parts.split(",")):
        yield (
            f"{parts} part{'' if parts == 1 else 's'}",
            [
                ["--vocabulary_only"],
                *([f"--part={number + 1}/{parts}"] for number in range(parts)),
                ["--join"],
            ],
        )
    if args.beam:
        cores = len(os.sched_getaffinity(0))
        yield "Apache Beam", [[f"--beam={_BEAM.format(cores=cores)}"]]


def _prepare(*flags: str) -> int:
    """Runs `prepare`; returns the memory of its largest process in kilobytes."""
    command = (sys.executable, "-m", "t2t_keras.prepare", *flags)
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stderr)
    return int(done.stdout)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(folder)).encode() + b"\0")
        digest.update(path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
