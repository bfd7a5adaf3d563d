"""End-to-end test of short runs: train and score, kill and resume; export, serve.

It checks that the programs work together; other tests check each one thoroughly.
"""

import signal

import pytest

from benchmarks.server_process import started_server
from t2t_keras.training.checkpoints import steps_in
from tests.forked import REPOSITORY, run_python
from tests.system import forked_programs
from tests.system.conftest import TrainedRun
from tests.system.in_process import run_program
from tests.system.runs import (
    TIMEOUT_SECONDS,
    Run,
    assert_same_end,
    checkpoint_warnings,
    kill_at_end,
)


def lines(run: TrainedRun) -> bytes:
    """Ten source sentences, one per line."""
    return "".join(f"{source}\n" for source, _ in run.held_out[:10]).encode()


def translate(run: TrainedRun, *flags: str) -> list[tuple[str, float]]:
    """Translates the lines with the translate program; returns texts and scores."""
    flags = (f"--model_dir={run.model_dir.path}", "--scores", *flags)
    done = run_program("translate", *flags, stdin=lines(run))
    assert (done.status, done.stderr) == (0, "")
    fields = [line.split("\t") for line in done.lines]
    return [(text, float(score)) for score, _, text in fields]


def assert_same(output: str, translated: list[tuple[str, float]]) -> None:
    fields = [line.split("\t") for line in output.splitlines()]
    assert [text for _, text in fields] == [text for text, _ in translated]
    scores = [float(score) for score, _ in fields]
    assert scores == pytest.approx([score for _, score in translated], abs=1e-5)


def test_the_program_trains_and_scores(short_run) -> None:
    run = short_run.model_dir
    assert "step 60/60" in short_run.stderr
    assert steps_in(run.checkpoints) == [15, 30, 45, 60]
    assert run.run_card()["averaged"] == {"steps": [30, 45, 60]}
    card = run.run_card()["scores"]["test averaged/step-60"]
    # Without training it would be 10, the number of letters.
    assert card["perplexity"] < 2
    kept = run.translations / "test-averaged-step-60.txt"
    texts = [text for text, _ in translate(short_run)]
    assert kept.read_text().splitlines() == texts
    right = [target for _, target in short_run.held_out]
    assert sum(map(str.__eq__, texts, right)) >= 3, (texts, right)


def test_the_example_program_translates_the_same(reverse_run) -> None:
    example = REPOSITORY / "examples" / "translate.py"
    version = reverse_run.model_dir.export / "1"
    done = run_python(str(example), str(version), input=lines(reverse_run))
    assert done.returncode == 0, done.stderr.decode()
    assert_same(done.stdout.decode(), translate(reverse_run))


def test_a_server_answers_the_same(reverse_run) -> None:
    """Also with search options, which client and translate program both take."""
    options = ("--beam_size=2", "--alpha=0.1")
    # Warm-up at every batch size would take longer than the rest of this test.
    quick = "--noenable_model_warmup"
    with started_server(reverse_run.model_dir.export, quick) as server:
        flags = (f"--server={server.address}", "--scores")
        asked = [
            run_program("client", *flags, *more, stdin=lines(reverse_run))
            for more in ((), options)
        ]
    assert [done.status for done in asked] == [0, 0], asked
    plain, other = (done.stdout for done in asked)
    assert_same(plain, translate(reverse_run))
    assert plain != other
    assert_same(other, translate(reverse_run, *options))


def test_a_killed_run_ends_with_the_same_bits(short_run, tmp_path) -> None:
    straight = Run(short_run.model_dir.path, short_run.flags)
    killed = Run(tmp_path / "run", short_run.flags)
    # Killed in the middle of its second checkpoint, so that only the first is left.
    process = forked_programs.start(
        killed.arguments, killed.log, forked_programs.POINTS[0], times=2
    )
    process.wait(TIMEOUT_SECONDS)
    assert process.returncode == -signal.SIGKILL, killed.log.read_text()
    assert steps_in(killed.checkpoints) == [15]
    kill_at_end(forked_programs.start(killed.arguments, killed.log), killed, 60)
    log = killed.log.read_text()
    assert "resuming from step 15" in log
    assert checkpoint_warnings(log) == []
    assert_same_end(straight, killed, 60)
