"""Encoder processes: results, their order, and the end of the processes."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.records import encoders
from t2t_keras.input_pipeline.records.encoders import Encoders, Piece
from t2t_keras.input_pipeline.records.tokenized import TokenizationReport, filter_pairs
from tests.input_pipeline.made_up import made_up_pairs


def make_pieces(sizes, seed=5):
    for number, size in enumerate(sizes):
        pairs = made_up_pairs(size, seed + number)
        yield Piece(
            number // 3,
            *([text.encode() for text in side] for side in zip(*pairs, strict=True)),
        )


@pytest.fixture(scope="module")
def two_workers(vocabulary):
    with Encoders(vocabulary.model_proto, 30, workers=2) as encoding:
        yield encoding


def test_pieces_come_back_encoded_and_in_order(two_workers, vocabulary):
    # The slow pieces come first: later ones must wait for them.
    sizes = [900, 1, 1, 1, 300, 2, 2, 1, 1, 1, 40]
    pieces = list(make_pieces(sizes))
    encoded = list(two_workers.encode(iter(pieces)))
    assert [each.shard for each in encoded] == [n // 3 for n in range(len(sizes))]
    assert [each.text_pairs for each in encoded] == sizes
    for each, piece in zip(encoded, pieces, strict=True):
        sides = [
            (
                np.array([token for row in rows for token in row]),
                np.array([len(row) for row in rows]),
            )
            for rows in (
                [vocabulary.encode(text) for text in side]
                for side in (piece.source, piece.target)
            )
        ]
        expected = filter_pairs(*sides, 30, vocabulary.size)
        assert each.chunk.report == expected.report
        np.testing.assert_array_equal(each.chunk.lengths, expected.lengths)
        for one, other in zip(each.chunk.tokens, expected.tokens, strict=True):
            np.testing.assert_array_equal(one, other)
    dropped = sum((e.chunk.report for e in encoded), TokenizationReport())
    assert dropped.dropped_over_long > 0


def test_encoders_can_be_reused_and_encode_nothing(two_workers):
    assert list(two_workers.encode([])) == []
    (only,) = two_workers.encode(make_pieces([3]))
    assert only.text_pairs == 3


def test_text_is_read_no_further_than_needed(two_workers):
    read = []

    def record_reads():
        for piece in make_pieces([1] * 60):
            read.append(piece)
            yield piece

    ahead = 2 * encoders._CHUNKS_AHEAD
    for number, _ in enumerate(two_workers.encode(record_reads())):
        assert len(read) <= number + 1 + ahead
    assert len(read) == 60


def test_a_killed_process_is_an_error(vocabulary):
    with Encoders(vocabulary.model_proto, 30, workers=2) as encoding:
        os.kill(encoding._processes[0].pid, signal.SIGKILL)
        with pytest.raises(UserError, match=r"status -9 .* with fewer --workers"):
            list(encoding.encode(make_pieces([5] * 8)))


def test_none_is_left_behind(vocabulary):
    with Encoders(vocabulary.model_proto, 30, workers=2) as encoding:
        pids = [process.pid for process in encoding._processes]
        for _ in encoding.encode(make_pieces([5, 5, 5])):
            break
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


ORPHANS = """
import os, signal, sys
from t2t_keras.input_pipeline.records.encoders import Encoders
if __name__ == "__main__":
    with Encoders(open(sys.argv[1], "rb").read(), 30, workers=2) as encoding:
        print(*(process.pid for process in encoding._processes), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_they_end_with_a_parent_that_is_killed(vocabulary, tmp_path):
    (tmp_path / "orphans.py").write_text(ORPHANS)
    vocabulary.save(tmp_path / "v.model")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "orphans.py"), str(tmp_path / "v.model")],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -signal.SIGKILL
    pids = {int(pid) for pid in done.stdout.split()}
    assert len(pids) == 2
    deadline = time.monotonic() + 60
    while pids := {pid for pid in pids if is_running(pid)}:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert done.stderr == b""


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_they_need_no_tensorflow():
    code = (
        "import sys, t2t_keras.input_pipeline.records.encoders\n"
        "print({'tensorflow', 'keras', 'tensorflow_text'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert done.stdout == "set()\n"
