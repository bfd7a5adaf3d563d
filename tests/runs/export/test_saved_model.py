"""Exports of a random model, run in a session as servers do, in all formats."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.decoding.transformer_search import search_translations
from t2t_keras.errors import UserError
from t2t_keras.runs import models
from t2t_keras.runs.export import saved_model
from t2t_keras.runs.export.export_settings import ExportSettings
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.serving.export.ids_module import buckets_up_to
from t2t_keras.serving.export.requests import Request, read_warm_up
from t2t_keras.serving.export.validation import (
    list_ops,
    list_signatures,
    open_session,
    read_meta_graph,
)
from t2t_keras.text.reading import TextReader
from t2t_keras.translation.translator import Translator
from tests.runs.random_model import (
    CONFIG,
    make_scorer,
    random_lines,
    random_trained_model,
    strings,
)
from tests.stock_ops import CORE_OPS, TOKENIZER_OPS

LINES = (*random_lines(6, seed=3), "", "the old house " * 12)
LIMIT = 11
CHARACTERS = 40
# Between two implementations in float32; wrong ones differ by more than 1e-2.
TOLERANCE = 1e-4
SETTINGS = ExportSettings(
    CONFIG.decoding,
    n_best=2,
    max_source_length=LIMIT,
    max_characters=CHARACTERS,
    max_beam_size=6,
    max_attention_length=7,
    batch_sizes=(1, 8),
    model_name="made-up",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model of one layer, which exports and compiles in half the time."""
    return random_trained_model(tmp_path_factory, num_layers=1)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return ModelDir(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def version(trained, model_dir):
    return saved_model.export_saved_model(trained, model_dir, "text", SETTINGS)


@pytest.fixture(scope="module")
def served(version):
    with open_session(version) as session:
        yield session


def ask(served, name, **inputs):
    return served.ask(Request(name, inputs))


def translate_lines(trained):
    """Returns translations of `LINES` by a translator with the limits of `SETTINGS`."""
    settings = BeamSearchSettings(n_best=2)
    extra = CONFIG.decoding.extra_length
    translator = Translator(
        lambda ids: search_translations(trained.model, ids, settings, extra),
        trained.vocabulary,
        max_source_length=LIMIT,
        max_characters=CHARACTERS,
    )
    return translator.translate(LINES)


@pytest.mark.slow
def test_the_batches_of_a_server_limit_the_default_signature_alone(trained, tmp_path):
    """Only that one is warmed up with the largest batch."""
    model_dir = ModelDir(tmp_path)
    model_dir.export_ids.mkdir()
    path = model_dir.export_ids / "batching.config"
    path.write_text("max_batch_size { value: 4 }")
    for warm_up in ("all", "translate_ids,serving_default"):
        settings = dataclasses.replace(SETTINGS, warm_up=warm_up)
        with pytest.raises(UserError, match=r"at most 4 rows .* have 8"):
            saved_model.export_saved_model(trained, model_dir, "ids", settings)
        assert list(model_dir.export_ids.iterdir()) == [path]
    settings = dataclasses.replace(SETTINGS, warm_up="translate_ids")
    version = saved_model.export_saved_model(trained, model_dir, "ids", settings)
    assert [len(each.inputs["input_ids"]) for each in read_warm_up(version)] == [1]
    wrong = dataclasses.replace(SETTINGS, warm_up="nbest")
    with pytest.raises(UserError, match="ids has no signature 'nbest'"):
        saved_model.export_saved_model(trained, model_dir, "ids", wrong)


@pytest.mark.slow
def test_the_signatures_are_those_of_the_settings(version):
    found = list_signatures(read_meta_graph(version))
    assert {*SETTINGS.signatures("text")} == found.keys()
    (default,) = {each.signature_name for each in read_warm_up(version)}
    assert default == "serving_default"


@pytest.mark.slow
def test_the_limits_work_as_in_a_translator(served, trained):
    expected = translate_lines(trained)
    found = ask(served, "serving_default", text=strings(LINES))
    texts = [text.decode() for text in found["translation"]]
    assert texts == [line.text for line in expected]
    scores = [line.hypotheses[0].score for line in expected]
    np.testing.assert_allclose(found["score"], scores, atol=TOLERANCE)
    cut = [line.truncated for line in expected]
    assert found["truncated"].tolist() == cut
    assert cut[-1] and not all(cut)
    several = ask(served, "nbest", text=strings(LINES))
    for row, line in enumerate(expected):
        for n, hypothesis in enumerate(line.hypotheses):
            assert several["translations"][row, n].decode() == hypothesis.text
            assert several["lengths"][row, n] == hypothesis.num_tokens
            assert several["scores"][row, n] == pytest.approx(
                hypothesis.score, abs=TOLERANCE
            )
    assert several["scores"][LINES.index("")].tolist() == [0.0, -np.inf]


@pytest.mark.slow
def test_scores_equal_those_of_the_model_in_float64(served, trained):
    targets = ["walks", *LINES[:5], "a", ""]
    found = ask(served, "score", source=strings(LINES), target=strings(targets))
    read = make_scorer(trained.model)
    encode = trained.vocabulary.encode
    for row, (source, target) in enumerate(zip(LINES, targets, strict=True)):
        if found["truncated"][row]:
            continue
        log_prob = read(encode(source), encode(target))
        assert found["log_prob"][row] == pytest.approx(log_prob, abs=TOLERANCE)
        penalty = ((5 + len(encode(target))) / 6) ** CONFIG.decoding.alpha
        assert found["score"][row] == pytest.approx(log_prob / penalty, abs=TOLERANCE)
    assert found["truncated"].tolist().count(False) >= 4


@pytest.mark.slow
def test_each_text_has_its_own_options(served, trained):
    """Each row equals a separate search with its options."""
    asked = ((1, 0.6, 99), (6, 0.0, 99), (4, 1.5, 3), (99, 0.6, 99))
    lines = LINES[:4]
    beams, alphas, lengths = (np.array(each) for each in zip(*asked, strict=True))
    found = ask(
        served,
        "translate_with_options",
        text=strings(lines),
        beam_size=beams.astype("int32"),
        alpha=alphas.astype("float32"),
        max_length=lengths.astype("int32"),
    )
    reader = TextReader(trained.vocabulary, LIMIT, CHARACTERS)
    alone = []
    for line, (beam_size, alpha, max_length) in zip(lines, asked, strict=True):
        ids, _ = reader.read(line)
        # The target may be six tokens longer than the source, as in the run's settings.
        extra = min(CONFIG.decoding.extra_length, max_length - len(ids))
        alone.append(
            search_translations(
                trained.model,
                tf.constant([ids], tf.int32),
                BeamSearchSettings(min(beam_size, 6), alpha, n_best=1),
                extra,
            )
        )
    texts = [trained.vocabulary.decode(one.tokens[0, 0].numpy()) for one in alone]
    assert [text.decode() for text in found["translation"]] == texts
    scores = [float(one.scores[0, 0]) for one in alone]
    np.testing.assert_allclose(found["score"], scores, atol=TOLERANCE)
    plain = ask(served, "serving_default", text=strings(lines))
    assert np.all(np.abs(plain["score"] - found["score"])[:3] > 100 * TOLERANCE)


# Each shape that is asked for is compiled, which takes seconds.
@pytest.mark.slow
@pytest.mark.usefixtures("unvalidated")
def test_xla_gives_the_same_results_in_a_directory_of_its_own(trained, model_dir):
    settings = dataclasses.replace(SETTINGS, xla=True, batch_sizes=(8,))
    xla_version = saved_model.export_saved_model(trained, model_dir, "text", settings)
    assert xla_version == model_dir.export_xla / "1"
    functions = read_meta_graph(xla_version).graph_def.library.function
    assert [f for f in functions if f.attr["_XlaMustCompile"].b]
    requests = list(read_warm_up(xla_version))
    # One for each source length that is compiled; and one row, as every signature has.
    rows = [each.inputs["text"].shape for each in requests]
    assert rows == [(8,)] * len(buckets_up_to(LIMIT)) + [(1,)]
    assert {each.signature_name for each in requests} == {"serving_default"}
    expected = translate_lines(trained)
    with open_session(xla_version) as session:
        found = ask(session, "serving_default", text=strings(LINES))
    texts = [text.decode() for text in found["translation"]]
    assert texts == [line.text for line in expected]
    scores = [line.hypotheses[0].score for line in expected]
    np.testing.assert_allclose(found["score"], scores, atol=TOLERANCE)
    assert list_ops(read_meta_graph(xla_version)) - CORE_OPS == TOKENIZER_OPS
    readme = (xla_version.parent / "README.md").read_text()
    assert "--xla_cpu_compilation_enabled" in readme


@pytest.mark.slow
def test_bfloat16_and_the_chosen_signatures(trained, tmp_path):
    """Weights in half the space, and warm-up requests of all signatures."""
    model_dir = ModelDir(tmp_path)
    settings = dataclasses.replace(SETTINGS, precision="bfloat16", warm_up="all")
    version = saved_model.export_saved_model(trained, model_dir, "ids", settings)
    names = ["detokenize", "serving_default", "translate_ids"]
    assert sorted({each.signature_name for each in read_warm_up(version)}) == names
    card = json.loads((version / "model_card.json").read_text())
    assert sorted(card["warm_up"]) == sorted(card["signatures"]) == names
    assert model_dir.run_card()["export_ids"]["warm_up"] == ["all"]
    assert saved_model.newest_export(trained, model_dir, "ids", settings) == version
    assert saved_model.newest_export(trained, model_dir, "ids", SETTINGS) is None
    assert list_ops(read_meta_graph(version)) <= CORE_OPS
    reader = tf.train.load_checkpoint(str(version / "variables/variables"))
    kinds = {
        name: kind
        for name, kind in reader.get_variable_to_dtype_map().items()
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    }
    assert set(kinds.values()) <= {tf.bfloat16, tf.int64}  # save counters, if any
    ids = trained.vocabulary.encode(LINES[0])
    with open_session(version) as session:
        found = ask(session, "translate_ids", input_ids=np.array([ids], np.int32))
    # Rounding the weights to 8 bits changes the score a little.
    tokens = [token for token in found["output_ids"][0].tolist() if token]
    exact = make_scorer(trained.model)(ids, tokens)
    penalty = ((5 + len(tokens)) / 6) ** CONFIG.decoding.alpha
    assert found["score"][0] == pytest.approx(exact / penalty, rel=0.05)


def test_the_precision_of_an_export(trained):
    """float16 becomes float32, because CPUs do not compute in float16."""

    def export_precision(trained_in, asked):
        training = dataclasses.replace(trained.config.training, precision=trained_in)
        config = dataclasses.replace(trained.config, training=training)
        changed = dataclasses.replace(trained, config=config)
        model = models.cast_to_precision(changed, asked).model
        kinds = {str(weight.dtype) for weight in model.weights}
        assert kinds == {model.compute_dtype}
        return model.compute_dtype

    assert export_precision("float32", None) == "float32"
    assert export_precision("bfloat16", None) == "bfloat16"
    assert export_precision("float16", None) == "float32"
    assert export_precision("bfloat16", "float32") == "float32"
    assert export_precision("float32", "bfloat16") == "bfloat16"
    for ours, theirs in zip(
        models.cast_to_precision(trained, "bfloat16").model.weights,
        trained.model.weights,
        strict=True,
    ):
        assert ours.path == theirs.path


def test_a_failed_export_leaves_no_files(trained, tmp_path, monkeypatch):
    def refuse(module, directory, **settings):
        Path(directory, "half").touch()
        raise UserError("refused")

    monkeypatch.setattr(tf.saved_model, "save", refuse)
    model_dir = ModelDir(tmp_path)
    with pytest.raises(UserError, match="refused"):
        saved_model.export_saved_model(trained, model_dir, "ids", SETTINGS)
    assert list(tmp_path.iterdir()) == []
