"""Exports of a trained model: their files, signatures and versions.

For their translations, see tests/system/test_serving_equality.py.
"""

import hashlib
import json
import signal
import subprocess
import time

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.serving.export.validation import (
    list_ops,
    list_signatures,
    read_meta_graph,
)
from t2t_keras.training.checkpoints import steps_in
from tests.forked import ForkedProcess
from tests.in_process import run_program
from tests.stock_ops import CORE_OPS, TOKENIZER_OPS


def describe(infos):
    """Returns name, dtype and shape of a signature's tensors; ? is any size or rank."""
    return sorted(
        f"{name} {tf.dtypes.as_dtype(info.dtype).name} "
        + ("?" if info.tensor_shape.unknown_rank else "")
        + " ".join(str(dim.size) for dim in info.tensor_shape.dim).replace("-1", "?")
        for name, info in infos.items()
    )


BEST = ("score float32 ?", "translation string ?", "truncated bool ?")
PAIR = ("source string ?", "target string ?")
TARGET = ("target_length int32 ?", "target_tokens string ? ?", "truncated bool ?")
# Inputs and outputs of each signature. A change in one of these lines breaks every
# client.
CONTRACT = (
    ("serving_default", ("text string ?",), BEST),
    (
        "translate_with_options",
        ("alpha float32 ?", "beam_size int32 ?", "max_length int32 ?", "text string ?"),
        BEST,
    ),
    (
        "nbest",
        ("text string ?",),
        (
            "lengths int32 ? 4",
            "scores float32 ? 4",
            "translations string ? 4",
            "truncated bool ?",
        ),
    ),
    (
        "score",
        PAIR,
        (
            "log_prob float32 ?",
            "score float32 ?",
            *TARGET,
            "token_log_probs float32 ? ?",
        ),
    ),
    (
        "attention",
        PAIR,
        (
            *(f"{part}_attention float32 ? 1 4 ? ?" for part in ("decoder", "encoder")),
            "memory_attention float32 ? 1 4 ? ?",
            *TARGET,
            "source_length int32 ?",
            "source_tokens string ? ?",
        ),
    ),
    (
        "translate_ids",
        ("input_ids int32 ? ?",),
        (
            "output_ids int32 ? ?",
            "output_length int32 ?",
            "score float32 ?",
            "truncated bool ?",
        ),
    ),
)


def test_the_signatures_are_those_that_servers_rely_on(reverse_run):
    graph = read_meta_graph(reverse_run.model_dir.export / "1")
    found = {
        name: (describe(definition.inputs), describe(definition.outputs))
        for name, definition in list_signatures(graph).items()
    }
    assert found == {name: (sorted(i), sorted(o)) for name, i, o in CONTRACT}


def test_every_op_is_one_that_a_server_of_2_20_has(reverse_run):
    """For bfloat16 and XLA, see tests/runs/export/test_saved_model.py."""
    run = reverse_run.model_dir
    ops = [
        list_ops(read_meta_graph(base / "1")) for base in (run.export, run.export_ids)
    ]
    assert ops[0] - CORE_OPS == TOKENIZER_OPS
    assert ops[1] <= CORE_OPS


@pytest.mark.parametrize("folder", ["export", "export_ids"])
def test_weights_are_saved_once(reverse_run, trained, folder):
    directory = reverse_run.model_dir.path / folder / "1"
    reader = tf.train.load_checkpoint(str(directory / "variables/variables"))
    sizes = [
        int(np.prod(shape)) for shape in reader.get_variable_to_shape_map().values()
    ]
    # One extra scalar: the loader's object graph.
    assert sum(sizes) - trained.model.count_params() in (0, 1)
    objects = read_meta_graph(directory).object_graph_def.nodes
    tensors = {node.variable.name for node in objects if node.HasField("variable")}
    assert len(tensors) == len(trained.model.weights)


def versions(base):
    return sorted(path.name for path in base.iterdir() if path.is_dir())


def test_another_export_is_another_version(own_run):
    flag = f"--model_dir={own_run.path}"
    before = (own_run.export_ids / "1/saved_model.pb").read_bytes()
    (own_run.export_ids / "models.config").write_text("mine")
    arguments = flag, "--beam_size=1", "--checkpoint=best", "--format=ids"
    done = run_program("export", *arguments)
    # The seed decides which of the two evaluations was the best.
    (best,) = steps_in(own_run.best)
    assert done.status == 0
    assert done.stderr == (
        f"kept in {own_run.export_ids}, though this export would write them "
        "differently: models.config. To replace them, delete them and export again.\n"
    )
    assert done.stdout == f"exported step {best} to {own_run.export_ids / '2'}\n"
    assert versions(own_run.export_ids) == ["1", "2"]
    assert versions(own_run.export) == ["1"]
    assert (own_run.export_ids / "models.config").read_text() == "mine"
    assert (own_run.export_ids / "1/saved_model.pb").read_bytes() == before
    card = own_run.run_card()["export_ids"]
    assert card["directory"] == "export_ids/2"
    assert card["checkpoint"] == f"best/step-{best}"


def test_sigterm_leaves_nothing_half_written(own_run):
    flags = f"--model_dir={own_run.path}", "--format=ids"
    with ForkedProcess(
        "-m", "t2t_keras.export", *flags, stderr=subprocess.PIPE, text=True
    ) as process:
        half = own_run.export_ids / f".2.{process.pid}.tmp"
        while not half.is_dir() and process.poll() is None:
            time.sleep(0.02)
        process.terminate()
        _, errors = process.communicate()
    assert errors.endswith("stopped by SIGTERM\n")
    assert process.returncode == 128 + signal.SIGTERM
    assert versions(own_run.export_ids) == ["1"]


REFUSED = (
    (("--checkpoint=7",), "There is no checkpoint '7' in"),
    (
        ("--warm_up=nbest",),
        "--format=ids has no signature 'nbest'. With these flags it",
    ),
    (("--top_p=0.9",), "--top_p is for --sample. Add --sample, or leave it out."),
    (("--sample", "--format=ids"), "--sample is for signatures that take text. Add"),
    (("--prefix", "--format=ids"), "--prefix is for signatures that take text. Add"),
    (("--license=mit", "--format=marian"), "--license is for the cards of --format=tr"),
    (("--license=My own", "--format=argos"), "must be the identifier of a license in"),
    (("--model_name=En De",), "must be lower-case letters, digits and hyphens"),
)


def test_bad_flags_are_refused(own_short_run):
    for arguments, message in REFUSED:
        done = run_program("export", f"--model_dir={own_short_run.path}", *arguments)
        assert done.status == 2, (arguments, done.stderr)
        assert done.stderr.startswith("error: "), (arguments, done.stderr)
        assert message in done.stderr, (arguments, done.stderr)
        for base in (own_short_run.export, own_short_run.export_ids):
            assert not base.exists(), arguments


def test_a_version_contains_all_files(reverse_run, trained):
    version = reverse_run.model_dir.export / "1"
    card = json.loads((version / "model_card.json").read_text())
    vocabulary = (version / "assets.extra/vocabulary.model").read_bytes()
    assert card["vocabulary"]["sha256"] == hashlib.sha256(vocabulary).hexdigest()
    assert card["files"]["assets.extra/vocabulary.model"] == trained.vocabulary.sha256
    assert "assets.extra/tf_serving_warmup_requests" in card["files"]
    assert card["languages"] == {"source": "letters", "target": "reversed"}
    scores = reverse_run.model_dir.run_card()["scores"]["test averaged/step-500"]
    assert card["scores"] == {"test averaged/step-500": scores}
    assert card["model"]["parameters"] == trained.model.count_params()
    assert card["source"] == {
        "checkpoint": "averaged/step-500",
        "step": 500,
        "averaged": [400, 450, 500],
    }
    names = {path.name for path in version.parent.iterdir()}
    assert names == {
        "1",
        "models.config",
        "batching.config",
        "monitoring.config",
        "compose.yaml",
        "kubernetes.yaml",
        "README.md",
    }


@pytest.mark.parametrize("folder", ["export", "export_ids"])
def test_no_file_contains_a_path_of_this_machine(reverse_run, folder):
    run = reverse_run.model_dir
    model_dir = str(run.path).encode()
    files = [p for p in (run.path / folder).rglob("*") if p.is_file()]
    assert len(files) > 10
    assert [p for p in files if model_dir in p.read_bytes()] == []
