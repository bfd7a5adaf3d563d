"""The prepare program: help, printed report, --verify and exit status."""

import dataclasses
import signal

import pytest

from t2t_keras.files.signals import Interrupted
from t2t_keras.input_pipeline.records.manifest import read_manifest
from t2t_keras.runs import preparation
from t2t_keras.settings.flags import flatten
from tests.system.in_process import run_program


@pytest.fixture
def flags(config):
    """Flags of the small corpus, and some that prepare ignores."""
    return [
        *(
            f"--{name}={','.join(value) if isinstance(value, tuple) else value}"
            for name, value in dataclasses.asdict(config.data).items()
            if value not in (None, ()) and not isinstance(value, bool)
        ),
        "--d_model=48",
        "--model_dir=elsewhere",
    ]


def test_records_are_made_and_verified(flags, tmp_path):
    folder = tmp_path / "records"
    done = run_program(
        "prepare", f"--output={folder}", "--workers=2", "--pairs_per_shard=40", *flags
    )
    assert done.status == 0, done.stderr
    manifest = read_manifest(folder)
    tokens = manifest.report.source_tokens, manifest.report.target_tokens
    report = [
        f"60 pairs in 2 shards: {tokens[0]} source and {tokens[1]} target tokens",
        "left out: 0 pairs longer than 8 tokens, 0 with an empty side, 0 rejected by "
        "filters, of 60",
    ]
    assert done.lines == report
    assert done.stderr.splitlines()[0] == "learning 280 subwords …"
    verified = run_program("prepare", f"--output={folder}", "--verify")
    assert (verified.status, verified.stderr) == (0, "")
    assert verified.lines == [f"{folder}: every hash is correct", *report]
    (folder / "train-00001" / "lengths.npy").write_bytes(b"")
    verified = run_program("prepare", f"--output={folder}", "--verify")
    assert (verified.status, verified.output) == (2, b"")
    assert "train-00001/lengths.npy" in verified.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_reported_and_sets_the_exit_status(
    flags, tmp_path, monkeypatch, number
):
    def stop(*_, **__):
        raise Interrupted(number)

    monkeypatch.setattr(preparation, "prepare", stop)
    done = run_program("prepare", f"--output={tmp_path}", *flags)
    assert (done.status, done.output) == (128 + number, b"")
    assert done.stderr == (
        f"stopped by {number.name}; finished shards are kept. The same command resumes "
        "from there.\n"
    )


def test_help_lists_only_the_data_settings(config):
    done = run_program("prepare", "--help")
    assert done.status == 0
    for name in ("output", "workers", "pairs_per_shard", "train_source", "max_length"):
        assert f"\n  --{name}" in done.stdout
    unused = {"records", "batching", "max_shapes", "tokens_per_batch"}
    for name in ("d_model", "train_steps", "beam_size", "model_dir", *unused):
        assert f"\n  --{name}" not in done.stdout
    settings = set(dataclasses.asdict(config.data))
    assert unused < settings < set(flatten(config))
