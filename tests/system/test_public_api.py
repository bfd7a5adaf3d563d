"""Public names of `import t2t_keras`, and the methods of `Run`."""

import ast
import dataclasses
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

import t2t_keras
from t2t_keras import (
    LabelSmoothedCrossEntropy,
    Run,
    Sampling,
    Transformer,
    UserError,
    WarmupInverseSquareRoot,
    import_model,
    read_settings,
)
from t2t_keras.runs.tasks import TranslationTask
from t2t_keras.runs.translation.scoring import EvaluationResult
from t2t_keras.settings.config import make_paths_absolute
from tests.runs.reverse_task import reversed_pairs, write_split

SOURCES = ("abc", "", "gfedcba", "hij")


def run_code(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


# --- import t2t_keras


def test_the_import_loads_no_tensorflow_and_prints_nothing() -> None:
    done = run_code(
        "import sys, t2t_keras\n"
        "dir(t2t_keras), t2t_keras.UserError\n"
        "heavy = {'tensorflow', 'keras', 'numpy', 'absl', 'grpc', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_keras_writes_nothing_here_without_a_home_folder() -> None:
    code = "import os; os.environ['HOME'] = '~'; import t2t_keras; "
    assert run_code(f"{code}print(os.environ['KERAS_HOME'])").stdout == "/tmp/.keras\n"


@pytest.mark.slow
def test_the_first_use_of_a_name_prints_nothing() -> None:
    done = run_code("import sys\nfrom t2t_keras import Run\nsys.modules['tensorflow']")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_keras_knows_our_classes_if_it_is_imported_after_us(tmp_path) -> None:
    model = Transformer(13, num_layers=1, d_model=4, d_ff=3, num_heads=2)
    schedule = WarmupInverseSquareRoot(d_model=4, warmup_steps=9)
    model.compile(keras.optimizers.SGD(schedule), loss=LabelSmoothedCrossEntropy(0.2))
    model.save(tmp_path / "model.keras")
    done = run_code(
        "import importlib.util, sys, t2t_keras\n"
        "importlib.util.find_spec('keras')\n"  # looks for it, but does not import it
        "import keras\n"
        f"model = keras.models.load_model({str(tmp_path / 'model.keras')!r})\n"
        "assert type(model) is t2t_keras.Transformer\n"
        "assert type(model.loss) is t2t_keras.LabelSmoothedCrossEntropy\n"
        "assert model.loss.label_smoothing == 0.2\n"
        "assert not [f for f in sys.meta_path if 't2t_keras' in str(type(f))]\n"
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_an_attribute_error_in_an_import_is_shown() -> None:
    done = run_code(
        "import sys, types\n"
        "sys.modules['t2t_keras.training.schedule'] = types.ModuleType('broken')\n"
        "from t2t_keras import WarmupSchedule\n"
    )
    assert "module 'broken' has no attribute 'WarmupSchedule'" in done.stderr
    assert "ImportError: t2t_keras.WarmupSchedule cannot be imported" in done.stderr


def test_every_public_name_can_be_imported_and_has_a_type() -> None:
    stub = ast.parse(Path(t2t_keras.__file__).with_name("__init__.pyi").read_text())
    typed = {
        alias.asname: f"{node.module}.{alias.name}"
        for node in ast.walk(stub)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(typed) == set(t2t_keras.__all__)
    (names,) = (
        ast.literal_eval(node.value)
        for node in stub.body
        if isinstance(node, ast.Assign)
    )
    assert names == t2t_keras.__all__
    for name, qualified_name in typed.items():
        value = getattr(t2t_keras, name)
        assert f"{value.__module__}.{value.__qualname__}" == qualified_name
        assert name in dir(t2t_keras)
    assert Path(t2t_keras.__file__).with_name("py.typed").is_file()


def test_keras_knows_every_public_class_that_it_saves() -> None:
    registered = {
        name
        for name in t2t_keras.__all__
        if keras.saving.get_registered_name(getattr(t2t_keras, name))
        == f"t2t_keras>{name}"
    }
    assert registered == set(t2t_keras._KNOWN_TO_KERAS)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Transfomer'"):
        t2t_keras.Transfomer  # noqa: B018  # type: ignore[attr-defined]


# --- Run, on a run trained by the train program


@pytest.fixture(scope="session")
def run(short_run) -> Run:
    return Run(short_run.model_dir.path)


def test_translations_equal_those_that_training_saved(run, short_run, capfd) -> None:
    lines = list(run.translate(source for source, _ in short_run.held_out))
    saved = run.model_dir.translations / "test-averaged-step-60.txt"
    assert [line.text for line in lines] == saved.read_text().splitlines()
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_translations_are_sampled_begun_and_reranked(run) -> None:
    lines, prefixes = ["a b c", "", "f e d"], ["c b", "a", ""]
    options = {"prefixes": prefixes, "min_length": 2}
    found = list(
        run.translate(lines, n_best=3, sample=Sampling(1.5, seed=8), **options)
    )
    assert all(each.text.startswith("c b") for each in found[0].hypotheses)
    assert found[1].text == ""
    assert min(each.num_tokens for each in found[2].hypotheses) >= 3
    best = next(run.translate(lines, rerank="mbr", candidates=2, beam_size=2))
    assert best.text in [
        each.text
        for each in next(run.translate(lines, n_best=2, beam_size=2)).hypotheses
    ]


def test_lines_are_read_lazily(run, monkeypatch) -> None:
    num_read = 0

    def endless():
        nonlocal num_read
        while True:
            num_read += 1
            yield "abc"

    first = next(run.translate(endless(), lines_at_once=3))
    assert first.text == next(run.translate(["abc"])).text
    assert num_read == 3
    next(run.translate(endless()))
    assert num_read == 3 + 1024


def test_scores_of_translations_equal_those_of_the_search(run) -> None:
    """Search and teacher forcing compute the same probability in different ways."""
    lines = list(run.translate(SOURCES, n_best=3))
    pairs = [
        (source, hypothesis)
        for source, line in zip(SOURCES, lines, strict=True)
        for hypothesis in line.hypotheses
        if source
    ]
    scores = run.score((source, each.text) for source, each in pairs)
    again = run.score([(source, each.text) for source, each in reversed(pairs)])
    compared = 0
    for (source, hypothesis), score, other in zip(
        pairs, scores, reversed(again), strict=True
    ):
        assert score.log_prob == pytest.approx(sum(score.token_log_probs))
        assert other.log_prob == pytest.approx(score.log_prob, abs=1e-5)
        # The search may have found other subwords for the same text.
        if len(score.token_log_probs) == hypothesis.num_tokens:
            compared += 1
            assert score.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-4), (
                source,
                hypothesis,
            )
        assert not score.truncated
    assert compared >= 3
    assert run.score([]) == []


@pytest.mark.slow
def test_an_evaluation_is_returned_and_kept(own_short_run) -> None:
    run, done = Run(own_short_run.path), []
    options = {"beam_size": 1, "length_penalty": "none", "extra_length": 2}
    result = run.evaluate(checkpoint="latest", on_progress=done.append, **options)
    assert isinstance(result, EvaluationResult)
    assert result.checkpoint == "checkpoints/step-60"
    assert sum(done) == len(result.sources) == len(result.translations)
    kept = run.model_dir.run_card()["scores"]
    title = "test checkpoints/step-60 beam 1 alpha 0.6 length_penalty none"
    assert kept[f"{title} extra_length 2"] == result.as_dict()
    assert result.as_dict()["decoding"] == {"alpha": 0.6, **options}


@pytest.mark.slow
def test_graphs_are_traced_once_and_few_are_kept(own_short_run, tmp_path) -> None:
    """Tracing, which takes seconds, calls the layers of the model in Python."""
    run = Run(own_short_run.path)
    source, reference = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("abc\n")
    reference.write_text("cba\n")

    def use_all() -> list[Any]:
        result = run.evaluate(source, reference, beam_size=1)
        return [
            run.score([("abc", b"cba")]),
            run.attention("abc").memory.weights.tolist(),
            [line.text for line in run.translate(["abc"], beam_size=1)],
            (result.translations, result.perplexity),
        ]

    first = use_all()
    with mock.patch.object(keras.layers.Layer, "__call__", side_effect=AssertionError):
        assert use_all() == first
    trained = run.trained()
    assert [trained.keep(i % 3, lambda: object) for i in range(30)] == [object] * 30
    for i in range(20):
        trained.keep(i, object)
    assert len(trained._kept) < 10
    assert not dataclasses.replace(trained, step=1)._kept  # perhaps other weights


def test_warnings_of_tensorflow_are_off_in_a_call_and_on_after_it(run) -> None:
    logger = tf.get_logger()
    before, levels = logger.level, []
    logger.setLevel("WARNING")
    try:
        run.score([("abc", "a")], on_progress=lambda _: levels.append(logger.level))
        assert (levels, logger.level) == ([logging.ERROR], logging.WARNING)
    finally:
        logger.setLevel(before)


def test_an_average_that_another_process_rewrites_is_loaded(own_short_run) -> None:
    run, other = Run(own_short_run.path), Run(own_short_run.path)
    before = run.trained()
    path = before.checkpoint
    assert other.average(1) == path  # in place of the mean of three
    after = run.trained()
    assert (after is before, after.checkpoint) == (False, path)
    assert run.trained(path) is run.trained("averaged") is after
    assert run.trained(45).step == 45


def test_averaging_changes_what_is_loaded(own_short_run) -> None:
    run = Run(own_short_run.path)
    before = run.trained()
    assert run.trained() is before  # loaded once
    folder = run.average(2, to_step=45)
    assert folder == own_short_run.averaged / "step-45"
    assert own_short_run.run_card()["averaged"] == {"steps": [30, 45]}
    assert run.trained(str(folder)).step == 45
    assert run.trained() is not before


@pytest.mark.slow
def test_attention_of_a_sentence_and_its_translation(run) -> None:
    maps = run.attention("abc", "cba")
    for attention in maps:
        assert attention.weights.shape[2:] == (
            len(attention.queries),
            len(attention.keys),
        )
        np.testing.assert_allclose(attention.weights.sum(axis=-1), 1, atol=1e-5)
    [line] = run.translate(["abc"])
    translated, given = run.attention("abc"), run.attention("abc", line.text)
    assert translated.memory.queries == given.memory.queries
    np.testing.assert_array_equal(translated.memory.weights, given.memory.weights)


@pytest.mark.slow
def test_export_works_as_the_program_does(own_short_run) -> None:
    run = Run(own_short_run.path)
    version = run.export("ids", beam_size=1, batch_sizes=(1, 4), model_name="mine")
    assert version == own_short_run.export_ids / "1"
    metadata = own_short_run.run_card()["export_ids"]
    assert metadata["decoding"]["beam_size"] == 1
    assert metadata["batch_sizes"] == [1, 4]


@pytest.mark.slow
def test_a_ctranslate2_model_is_the_next_version(own_short_run) -> None:
    run = Run(own_short_run.path)
    base = own_short_run.export_ctranslate2
    assert run.export_ctranslate2() == base / "1"
    assert run.export_ctranslate2("int8") == base / "2"
    sizes = [(base / name / "model.bin").stat().st_size for name in "12"]
    assert sizes[1] < 0.8 * sizes[0]  # biases, norms and positions stay in float32
    with pytest.raises(UserError, match=r"must be one of .* Received: int4"):
        run.export_ctranslate2("int4")
    assert not (base / "3").exists()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda run: run.translate(["a"], n_best=9), "--n_best must be from 1 to"),
        (lambda run: run.translate(["a"], checkpoint="99"), "no checkpoint '99'"),
        (
            lambda run: run.translate(["a"], sample=Sampling(), beam_size=2),
            "--beam_size is not for --sample: it has no beam",
        ),
        (
            lambda run: run.translate(["a"], min_lenght=2),
            r"no setting 'min_lenght'.*Did you mean min_length\?",
        ),
        (lambda run: run.evaluate(["a.mrg"]), "this model is not a parser"),
        (lambda run: run.average(77), "expected 77"),
        (lambda run: run.translate(["a"], beam_size=0), "beam_size must be at least"),
        (lambda run: run.translate("The dog."), r"in a list. Received: 'The dog\.'"),
        (lambda run: list(run.translate(["a", None])), "Line 2 must be a text. .*None"),
        (lambda run: run.translate(["a"], prefixes=5), "Prefixes, .* in a list. .* 5"),
        (lambda run: run.translate(["a"], lines_at_once="x"), "must be at least 1"),
        (lambda run: run.attention(None), "must be a text. Received: None"),
        (lambda run: run.score(None), "Pairs must be in a list. Received: None"),
        (lambda run: run.evaluate([None], ["a"]), "A path must be a text or a Path"),
        (lambda run: run.trained(ensemble_with=5), "must be a list of model dir"),
        (lambda run: Run("a\0b"), "A path must be a text or a Path"),
        (lambda run: run.score(["ab"]), r"a source and its target, .* Received: 'ab'"),
        (lambda run: run.score([("ab", None)]), r"Received: \('ab', None\)"),
        (lambda run: run.evaluate(reference=["b"]), "belong together; one is missing"),
        (lambda run: run.export("onnx"), "--format must be one of text, ids"),
        (lambda run: run.export(nbest=3), "no option 'nbest'.* Did you mean n_best"),
        (lambda run: run.train("configs/tiny.flags"), "settings that read_settings"),
        (lambda run: run.train({}), r"takes settings .* Received: \{\}"),
        (lambda run: run.trained(Path("no/[1]")), r"The checkpoint no/\[1\] has \[1\]"),
        (lambda run: Run(run.path / "nothing").trained(), "is not a model directory"),
        (lambda run: Run(run.path / "nothing").train(), "is not a model directory"),
    ],
)
def test_errors_are_those_of_the_programs(run, use, message) -> None:
    with pytest.raises(UserError, match=message):
        use(run)


def test_another_keras_is_refused_before_any_work(monkeypatch, tmp_path) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(keras.config, "backend", lambda: "jax")
        with pytest.raises(UserError, match=r"KERAS_BACKEND must be tensorflow.* jax"):
            Run(tmp_path)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "True")
    for use in (
        lambda: Run(tmp_path),
        lambda: import_model("marian", tmp_path, tmp_path / "new"),
    ):
        with pytest.raises(UserError, match="TF_USE_LEGACY_KERAS must not be set"):
            use()


# --- Run.train, and a custom task


class Shouting(TranslationTask):
    """Translation task that lower-cases sources and upper-cases translations."""

    def text_adapter(self, *, splits_words):
        class Adapter(type(super().text_adapter(splits_words=splits_words))):
            def source(self, line):
                return line.lower()

            def answer(self, source, target):
                return target.upper()

        return Adapter()


@pytest.mark.slow
def test_a_run_trains_and_resumes_with_a_custom_task(
    tmp_path, capfd, monkeypatch
) -> None:
    files = {}
    pairs = reversed_pairs(80, seed=3)
    for split, part in (("train", pairs[:60]), ("dev", pairs[60:70])):
        for flag in write_split(tmp_path, split, part):
            name, _, path = flag.removeprefix("--").partition("=")
            files[name] = [os.path.relpath(path, tmp_path)]
    monkeypatch.chdir(tmp_path)
    settings = read_settings(
        **files,
        vocabulary_size=280,
        max_length=8,
        tokens_per_batch=128,
        num_layers=1,
        d_model=8,
        d_ff=8,
        num_heads=2,
        train_steps=4,
        jit_compile=False,
        log_steps=2,
        eval_steps=4,
        dev_bleu_sentences=0,
        export_at_end=False,
        score_split="dev",
        beam_size=1,
        tf32=False,
    )
    tf32 = tf.config.experimental.tensor_float_32_execution_enabled()
    lines: list[str] = []
    records: list[int] = []
    run = Run(tmp_path / "run", Shouting("reversed"), log=lines.append)
    assert repr(run) == f"Run({str(tmp_path / 'run')!r})"
    finished = run.train(settings, on_record=lambda step, _: records.append(step))
    assert records == [2, 4]
    assert any(line.startswith("step 4/4  loss ") for line in lines)
    assert finished.checkpoint == run.path / "averaged/step-4"
    assert finished.evaluation is not None
    texts = [line.text for line in finished.evaluation.translations]
    assert "".join(texts).isupper()
    assert [line.text for line in run.translate(["ABC"])] == [
        line.text for line in run.translate(["abc"])
    ]
    assert tf.config.experimental.tensor_float_32_execution_enabled() is tf32
    lines.clear()
    # The run has absolute paths: it resumes anywhere, as by the program.
    assert run.settings.data.dev_source == (str(tmp_path / "dev.source"),)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert run.train().evaluation is not None
    assert lines.count("all 4 steps are done already") == 1
    with pytest.raises(UserError, match="does not exist"):
        run.train(settings)  # relative paths are now others
    check_batches(run.batches(), pairs[:60], run.trained().vocabulary)
    assert capfd.readouterr().out == ""


def check_batches(batches, pairs, vocabulary) -> None:
    """Checks that the first epoch of a run's batches has each pair once."""
    rows = []
    for batch in batches.as_numpy_iterator():
        for source, target in zip(
            batch["encoder_input_tokens"], batch["decoder_target_tokens"], strict=True
        ):
            rows.append(
                tuple(vocabulary.decode(ids.tolist()) for ids in (source, target))
            )
        rows = [row for row in rows if any(row)]  # not the rows of padding
        if len(rows) >= len(pairs):
            break
    assert sorted(rows) == sorted(pairs)


def test_an_old_run_with_relative_paths_is_resumed(tmp_path, monkeypatch) -> None:
    """Release 0.3.0 stored the paths that `Run.train` was given."""
    settings = read_settings(train_source=["a.en"], train_target=["a.de"])
    model_dir = Run(tmp_path / "run").model_dir
    model_dir.write_config(settings, "An old run.")
    monkeypatch.chdir(tmp_path)
    model_dir.check_same(make_paths_absolute(settings))
    monkeypatch.chdir(tmp_path / "run")
    model_dir.check_same(settings)
    with pytest.raises(UserError, match="other settings"):
        model_dir.check_same(
            read_settings(train_source=["b.en"], train_target=["a.de"])
        )


# --- Settings


def test_settings_come_from_a_flagfile_with_changes() -> None:
    settings = read_settings("configs/big.flags", train_steps=7, train_source=("a,b",))
    assert settings.model.d_model == 1024
    assert settings.training.train_steps == 7
    assert settings.data.train_source == ("a,b",)
    assert read_settings().model.d_model == 512
    assert read_settings("configs/tiny.flags", dataset=None).data.dataset is None


def test_settings_may_be_lists_paths_and_numbers_of_numpy() -> None:
    for value, expected in (
        (["a.en", "b.en"], ("a.en", "b.en")),
        ([], ()),
        ([Path("a,b")], ("a,b",)),
        (Path("a,b"), ("a,b",)),
        ("a.en,b.en", ("a.en", "b.en")),  # as on a command line
        (np.array(["a", "b"]), ("a", "b")),
        ((name for name in "ab"), ("a", "b")),
    ):
        assert read_settings(train_source=value).data.train_source == expected
    for steps in (np.int64(1000), 1e3, np.float32(1000)):
        assert read_settings(train_steps=steps).training.train_steps == 1000
    settings = read_settings(dropout_rate=np.float64(0.25), jit_compile=np.bool_(False))
    assert settings.model.dropout_rate == 0.25
    assert settings.training.jit_compile is False


def test_bad_settings_are_refused() -> None:
    for changes, message in (
        ({"train_step": 3}, "no setting 'train_step'. Did you mean"),
        ({"train_steps": "many"}, "train_steps"),
    ):
        with pytest.raises(UserError, match=message):
            read_settings(**changes)
