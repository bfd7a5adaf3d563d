"""Memory of the prepare program: constant, up to two million pairs."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_keras.input_pipeline.records.manifest import open_records, read_manifest
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from tests.forked import REPOSITORY

pytestmark = pytest.mark.release

SIDES = ("source", "target")
MANY, FEW = 2_000_000, 20_000
# Documented in docs/data.md.
BOUND_BYTES = 1_000_000_000
MOST_GROWTH_BYTES = 100_000_000
MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""
WORDS = ("a", "the", "house", "tree", "old", "green", "Baum", "Haus", "alt", "und")


def write_text_files(folder: Path, num_pairs: int) -> list[str]:
    generator = random.Random(7)
    lines = [
        "".join(f"{w} " for w in generator.choices(WORDS, k=3)) for _ in range(999)
    ]
    for side in SIDES:
        with open(folder / side, "w") as file:
            for _ in range(0, num_pairs, 1000):
                file.write("\n".join(generator.choices(lines, k=1000)) + "\n")
    return [f"--train_{side}={folder / side}" for side in SIDES]


def measure_preparation(folder: Path, num_pairs: int, *flags: str) -> tuple[int, str]:
    """Returns peak memory (bytes) of the largest process, and its output."""
    folder.mkdir()
    command = (
        sys.executable,
        "-m",
        "t2t_keras.prepare",
        f"--output={folder / 'records'}",
        *write_text_files(folder, num_pairs),
        *flags,
    )
    # Started from a small process: a child's peak starts at the memory of its parent,
    # and this process is large.
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    # ru_maxrss is in kilobytes, of the process and of those it has waited for.
    return 1024 * int(done.stdout.splitlines()[-1]), done.stderr + done.stdout


def test_memory_is_bounded(tmp_path):
    vocabulary = SubwordVocabulary(
        learn_subwords([" ".join(WORDS)], vocabulary_size=300)
    )
    vocabulary.save(tmp_path / "v.model")
    flags = (f"--vocabulary_file={tmp_path / 'v.model'}", "--workers=2")
    few, _ = measure_preparation(tmp_path / "few", FEW, *flags)
    many, output = measure_preparation(tmp_path / "many", MANY, *flags)
    print(f"{few / 1e6:.0f} MB for {FEW:,} pairs, {many / 1e6:.0f} MB for {MANY:,}")
    assert many < BOUND_BYTES
    assert many - few < MOST_GROWTH_BYTES
    assert "train-00003  2,000,000/2,000,000 pairs  " in output
    folder = tmp_path / "many" / "records"
    records = open_records(folder, read_manifest(folder))
    assert len(records) == MANY
    # The last pair is the last line.
    last = [(tmp_path / "many" / side).read_bytes().splitlines()[-1] for side in SIDES]
    ids = [side.tolist() for side in records.pair(MANY - 1)]
    assert ids == [vocabulary.encode(line) for line in last]
