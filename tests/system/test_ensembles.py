"""Runs that translate, are scored and exported together, against a float64 mixture."""

import dataclasses
import functools
import json
import math
import re
import shutil
from types import MappingProxyType

import numpy as np
import pytest
import sacrebleu
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.model.attention_maps import attention_maps
from t2t_keras.runs import models
from t2t_keras.runs.export import export_card, saved_model
from t2t_keras.runs.export.export_settings import ExportSettings
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.run import Run
from t2t_keras.runs.translation import ensembles
from t2t_keras.serving.export.requests import Request
from t2t_keras.serving.export.validation import open_session
from t2t_keras.settings import program
from t2t_keras.training.checkpoint_store import CheckpointStore
from t2t_keras.training.checkpoints import CheckpointState
from tests.in_process import run_program
from tests.reference.beam_np import plain_beam_search
from tests.runs.random_model import (
    CONFIG,
    make_next_scorer,
    pad_ids,
    random_lines,
    random_model,
    random_vocabulary,
)
from tests.runs.replace_settings import replace_settings
from tests.runs.run_vocabulary import vocabulary_of

LINES = ("the old tree", "", "Haus läuft a green house")
SECOND = MappingProxyType(
    {
        "num_layers": 1,
        "d_model": 14,
        "d_ff": 9,
        "num_heads": 2,
        "normalization": "pre",
        "learned_positions": 40,
    }
)


def make_run(folder, vocabulary, step, **model):
    """Returns a run with random weights, which was not trained."""
    run = ModelDir(folder)
    folder.mkdir()
    files = {}
    for side, seed in (("source", 1), ("target", 2)):
        path = folder / side
        path.write_text("".join(f"{line}\n" for line in random_lines(4, seed)))
        files |= dict.fromkeys((f"train_{side}", f"test_{side}"), (str(path),))
    config = replace_settings(CONFIG, "model", **model)
    run.write_config(replace_settings(config, "data", **files), "")
    vocabulary.save(run.vocabulary_file)
    store = CheckpointStore(run.checkpoints, random_model(vocabulary, **model))
    state = CheckpointState(step, fingerprints={"vocabulary": vocabulary.sha256})
    store.save(state)
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder, vocabulary = tmp_path_factory.mktemp("runs"), random_vocabulary()
    return (
        make_run(folder / "first", vocabulary, 5, num_layers=1),
        make_run(folder / "second", vocabulary, 7, **SECOND),
    )


class Mixture:
    """Model of the plain search: teacher forcing of each run, mixed in float64."""

    def __init__(self, runs):
        self._vocabulary = vocabulary_of(runs[0])
        self._scorers = [
            make_next_scorer(Run(run.path).trained().model) for run in runs
        ]

    @functools.cache  # noqa: B019 - as long as the tests
    def log_probs(self, row, history):
        source = self._vocabulary.encode(row)
        both = [np.exp(score(source, history)) for score in self._scorers]
        return np.log(sum(both) / len(both))

    def log_prob(self, line, target):
        return sum(
            self.log_probs(line, tuple(target[:i]))[token]
            for i, token in enumerate(target)
        )

    def search(self, line, beam_size):
        limit = len(self._vocabulary.encode(line)) + CONFIG.decoding.extra_length
        vocabulary_size = self._vocabulary.size
        found = plain_beam_search(self, line, limit, 0.6, vocabulary_size, beam_size)
        return [
            (self._vocabulary.decode(list(tokens)), log_prob, score)
            for tokens, log_prob, score in found
        ]


@pytest.fixture(scope="module")
def mixture(runs):
    return Mixture(runs)


def translate(run, *arguments, lines=LINES):
    flags = f"--model_dir={run.path}", "--scores", "--n_best=2", "--beam_size=2"
    done = run_program("translate", *flags, *arguments, stdin="\n".join(lines).encode())
    assert (done.status, done.stderr) == (0, "")
    return [line.split("\t") for line in done.lines]


@pytest.mark.slow
def test_translations_are_those_of_the_mixture(runs, mixture):
    first, second = runs
    rows = translate(first, f"--ensemble_with={second.path}/checkpoints/step-7")
    assert [row[0] for row in rows] == list("11233")
    for line, number in ((LINES[0], "1"), (LINES[2], "3")):
        found = [row for row in rows if row[0] == number]
        for row, expected in zip(found, mixture.search(line, 2), strict=True):
            text, log_prob, score = expected
            assert row[3] == text
            assert float(row[1]) == pytest.approx(score, abs=3e-5)
            assert float(row[2]) == pytest.approx(log_prob, abs=3e-5)


def test_a_run_keeps_its_ensemble_until_others_are_asked_for(runs):
    first, second = runs
    run = Run(first.path)
    together = run.trained(ensemble_with=[second.path])
    assert run.trained(ensemble_with=[str(second.path)]) is together
    assert together.checkpoint_names == "checkpoints/step-5 + second/checkpoints/step-7"
    alone = run.trained()
    assert alone.others == () and alone.search_model is alone.model
    twice = run.trained(ensemble_with=[second.path, second.path])
    assert len(twice.search_model.models) == 3


@pytest.mark.slow
def test_the_ensemble_is_scored_and_nothing_is_saved(runs, mixture):
    first, second = runs
    before = first.run_card()
    flags = f"--model_dir={first.path}", f"--ensemble_with={second.path}"
    done = run_program("evaluate", *flags, "--beam_size=2")
    assert (done.status, done.stderr) == (0, "")
    head = "test: 4 sentences, checkpoints/step-5 + second/checkpoints/step-7, beam 2"
    assert done.lines[0].startswith(head)
    sources, references = random_lines(4, 1), random_lines(4, 2)
    best = [mixture.search(line, 2)[0][0] for line in sources]
    bleu = sacrebleu.corpus_bleu(best, [references]).score
    assert done.lines[1].startswith(f"  BLEU {bleu:.2f}  ")
    encode = vocabulary_of(first).encode
    targets = [encode(reference) for reference in references]
    log_prob = sum(map(mixture.log_prob, sources, targets))
    perplexity = math.exp(-log_prob / sum(map(len, targets)))
    found = re.search(r"perplexity per subword (\d+\.\d+)", done.stdout)
    assert float(found[1]) == pytest.approx(perplexity, abs=2e-3)
    assert first.run_card() == before and not first.translations.exists()
    alone = Run(first.path).evaluate(beam_size=2)
    assert f"{alone.perplexity:.3f}" not in done.stdout
    assert first.translations.exists()


def copy_run(run, folder, **settings):
    """Returns a copy of a run with other settings."""
    shutil.copytree(run.path, folder)
    copy = ModelDir(folder)
    config = copy.config()
    for name, value in settings.items():
        section = "model" if name == "decoder_start" else "data"
        config = replace_settings(config, section, **{name: value})
    copy.write_config(config, "")
    return copy


def test_runs_that_do_not_fit_are_refused_before_tensorflow_starts(
    runs, tmp_path, monkeypatch
):
    first, second = runs
    other = copy_run(second, tmp_path / "other")
    proto = bytearray(second.vocabulary_file.read_bytes())
    other.vocabulary_file.write_bytes(bytes(proto) + b"\x00")
    starts = copy_run(second, tmp_path / "starts", decoder_start="</s>")
    parses = copy_run(second, tmp_path / "parses", target_language="tree")
    translates_nl = copy_run(second, tmp_path / "nl", source_language="nl")
    untrained = copy_run(second, tmp_path / "untrained")
    untrained.vocabulary_file.unlink()
    sha256 = vocabulary_of(second).sha256[:12]
    for path, pattern in (
        (
            other.path,
            f"the same vocabulary.* Received: {first.vocabulary_file} .SHA-256",
        ),
        (
            other.path,
            f"{sha256}….* and {other.vocabulary_file} .SHA-256 .*Train one of",
        ),
        (other.path / "checkpoints/step-7", f"and {other.vocabulary_file} .SHA-256 "),
        (starts.path, "same --decoder_start.* zero in .*first, and </s> in .*starts"),
        (parses.path, "the same --target_language. Received: fr in "),
        (translates_nl.path, "the same --source_language. Received: "),
        (
            untrained.path,
            f"{untrained.vocabulary_file} is missing, so {untrained.path}",
        ),
        (tmp_path, f"Received: {tmp_path}, with no train.flags there or two folders"),
    ):
        with pytest.raises(UserError, match=pattern):
            ensembles.check_members(first.path, [second.path, path])
    with pytest.raises(UserError, match="ensemble_with must be a list of model dir"):
        Run(first.path).translate(LINES, ensemble_with=str(second.path))
    monkeypatch.setattr(program, "_import_tensorflow", lambda **_: 1 / 0)
    for name in ("translate", "evaluate", "export"):
        done = run_program(
            name, f"--model_dir={first.path}", f"--ensemble_with={other.path}"
        )
        assert done.status == 2
        assert done.stderr.startswith("error: The models of an ensemble must have the ")


def test_ensembles_are_refused_where_they_mean_nothing(runs):
    first, second = runs
    other = f"--ensemble_with={second.path}"
    for arguments, message in (
        (
            ("export", f"--model_dir={first.path}", "--format=ctranslate2"),
            "--ensemble_with is for SavedModels: models of other formats are one T",
        ),
        (
            ("evaluate", "--hypotheses=a.de", "--reference=b.de"),
            "--ensemble_with is for scores of a model, but --hypotheses",
        ),
        (
            ("evaluate", "--alignments=a", "--gold_alignments=b"),
            "--ensemble_with is for translations, but --alignments",
        ),
    ):
        done = run_program(*arguments, other)
        assert done.status == 2
        assert message in done.stderr


def test_every_model_is_cast_to_the_precision_of_an_export(runs):
    first, second = runs
    trained = Run(first.path).trained(ensemble_with=[second.path])
    cast = models.cast_to_precision(trained, "bfloat16")
    for model in cast.search_model.models:
        assert {weight.dtype for weight in model.weights} == {"bfloat16"}
    same = models.cast_to_precision(trained, "float32")
    assert same.search_model.models == trained.search_model.models


@pytest.mark.slow
def test_an_export_translates_and_scores_as_the_ensemble(runs, mixture):
    """With ids, because all signatures have the same functions of the model."""
    first, second = runs
    run, others = Run(first.path), [second.path]
    version = run.export("ids", ensemble_with=others, beam_size=2, batch_sizes=(3,))
    lines, encode = (LINES[0], LINES[2]), vocabulary_of(first).encode
    ids = pad_ids([encode(line) for line in lines]).numpy()
    with open_session(version) as session:
        found = session.ask(Request("serving_default", {"input_ids": ids}))
    expected = run.translate(lines, ensemble_with=others, beam_size=2)
    for row, score, line in zip(
        found["output_ids"], found["score"], expected, strict=True
    ):
        assert vocabulary_of(first).decode(row.tolist()) == line.text
        assert score == pytest.approx(line.hypotheses[0].score, abs=3e-5)
    trained = run.trained(ensemble_with=others)
    served = saved_model.build_served_model(trained, CONFIG.decoding.extra_length)
    source, target = tf.constant([encode(LINES[0])]), encode("a house")
    log_probs = served.target_log_probs(source, tf.constant([target]))
    log_prob = mixture.log_prob(LINES[0], target)
    assert float(tf.reduce_sum(log_probs)) == pytest.approx(log_prob, abs=3e-5)
    shifted = tf.constant([[0, *target[:-1]]])
    own = attention_maps(run.trained().model, source, shifted)
    found = served.attention(source, shifted)
    np.testing.assert_allclose(found.memory, own.memory, atol=1e-6)

    card = json.loads((version / "model_card.json").read_text())
    [other] = card["ensemble_with"]
    assert (other["run"], other["source"]["step"]) == ("second", 7)
    assert other["model"]["d_model"] == 14 and card["model"]["d_model"] == 26
    text = (version / "model_card.md").read_text()
    assert "| second/checkpoints/step-7 | 7 |" in text
    recorded = first.run_card()["export_ids"]["ensemble_with"]
    assert [each["run"] for each in recorded] == [str(second.path.resolve())]


def test_an_ensemble_of_one_is_recorded_as_before(runs):
    trained = Run(runs[0].path).trained()
    assert export_card._describe_others(trained) == {}
    settings = ExportSettings(CONFIG.decoding)
    assert "ensemble_with" not in export_card.identity(trained, settings)
    together = dataclasses.replace(trained, others=(trained,))
    assert "ensemble_with" in export_card.identity(together, settings)
