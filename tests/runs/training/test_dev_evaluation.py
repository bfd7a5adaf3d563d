"""Evaluation on the dev set during training: scores, log lines, texts and images."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.runs import models, translators
from t2t_keras.runs.training import optimization
from t2t_keras.runs.training.dev_evaluation import SAMPLES, DevEvaluation
from t2t_keras.runs.training.prepared_run import prepare_run
from t2t_keras.training.losses import LossSums
from t2t_keras.training.step import batch_shape
from t2t_keras.training.update import StepSums
from tests.runs.replace_settings import replace_settings


class FakeProgress:
    """Fake of `Progress` that keeps lines, texts and images."""

    def __init__(self):
        self.lines: list[str] = []
        self.texts: dict[str, str] = {}
        self.images: dict[str, np.ndarray] = {}

    def log(self, text: str) -> None:
        self.lines.append(text)

    def text(self, step: int, tag: str, markdown: str) -> None:
        assert step == 6
        self.texts[tag] = markdown

    def image(self, step: int, tag: str, pixels: np.ndarray) -> None:
        assert step == 6
        self.images[tag] = pixels


class RecordingStepper:
    """Fake stepper that only records the shapes of its batches."""

    def __init__(self):
        self.shapes = []

    def evaluate(self, batch) -> StepSums:
        self.shapes.append(batch_shape(batch))
        return StepSums(LossSums(1.0, 1.0, 1.0))


def build_evaluation(
    config, model_dir, stepper=None
) -> tuple[DevEvaluation, FakeProgress, list[None]]:
    data = prepare_run(config, model_dir)
    model = models.build_model(config, data.vocabulary.size)
    strategy = tf.distribute.get_strategy()
    optimizer = optimization.build_optimizer(config, model)
    stepper = stepper or optimization.build_stepper(
        config.training, model, optimizer, strategy
    )
    progress, heartbeats = FakeProgress(), []
    evaluation = DevEvaluation(
        config,
        data,
        model,
        stepper,
        progress,  # type: ignore[arg-type]
        lambda: heartbeats.append(None),
    )
    return evaluation, progress, heartbeats


def evaluate(config, model_dir) -> tuple[dict[str, float], FakeProgress, list[None]]:
    evaluation, progress, heartbeats = build_evaluation(config, model_dir)
    return evaluation.scores(6), progress, heartbeats


@pytest.mark.slow
def test_nothing_is_compiled_or_traced_after_the_preflight(
    config, model_dir, monkeypatch
) -> None:
    # Python runs the search while TensorFlow traces it, and never again.
    traces = []
    search = translators.search_translations

    def search_and_count(*arguments, **settings):
        traces.append(arguments)
        return search(*arguments, **settings)

    monkeypatch.setattr(translators, "search_translations", search_and_count)
    config = replace_settings(
        config, "training", dev_bleu_sentences=3, jit_compile=True
    )
    config = replace_settings(config, "data", max_shapes=3)
    stepper = RecordingStepper()
    evaluation, progress, heartbeats = build_evaluation(config, model_dir, stepper)
    compiled = [batch_shape(batch) for batch in evaluation.padding_batches()]
    assert compiled == sorted(compiled, key=lambda shape: -sum(shape[1:]))
    assert len(heartbeats) == len(compiled)
    evaluation.trace_search()
    assert progress.lines[0].startswith("  greedy search traced: ")
    assert len(traces) == 1
    evaluation.scores(6)
    assert set(stepper.shapes) == set(compiled)
    assert len(traces) == 1


def test_without_xla_only_one_shape_is_tried(config, model_dir) -> None:
    config = replace_settings(config, "data", max_shapes=3)
    evaluation, progress, _ = build_evaluation(config, model_dir, RecordingStepper())
    assert len(list(evaluation.padding_batches())) == 1
    evaluation.trace_search()
    assert progress.lines == []  # the settings ask for no translations


@pytest.mark.slow
def test_scores_are_logged_and_translations_and_attention_shown(
    config, model_dir
) -> None:
    config = replace_settings(config, "training", dev_bleu_sentences=7)
    scores, progress, heartbeats = evaluate(config, model_dir)
    assert set(scores) == {"dev_loss", "dev_perplexity", "dev_bleu_greedy"}
    assert scores["dev_perplexity"] == np.exp(scores["dev_loss"])
    assert len(progress.lines) == 1
    assert f"dev: loss {scores['dev_loss']:.3f}, perplexity " in progress.lines[0]
    (source,) = config.data.dev_source
    sources = Path(source).read_text(encoding="utf-8").splitlines()
    text = progress.texts["translations"]
    assert text.count("→") == SAMPLES + 1
    assert all(f"    {source}\n    → " in text for source in sources[:SAMPLES])
    # Self-attention of encoder and decoder, and cross-attention, of two sentences.
    assert set(progress.images) == {
        f"attention_{number}/{name}"
        for number in (1, 2)
        for name in ("encoder", "decoder", "memory")
    }
    legend = progress.texts["attention_2/tokens"]
    pieces = [row.split(" | ")[1].strip("`") for row in legend.splitlines()[2:]]
    joined = "".join(piece for piece in pieces if piece != "</s>")
    assert joined.replace("▁", " ").strip() == sources[1]
    assert len(heartbeats) > 3


@pytest.mark.slow
def test_without_translations_there_is_still_a_loss(config, model_dir) -> None:
    scores, progress, _ = evaluate(config, model_dir)
    assert set(scores) == {"dev_loss", "dev_perplexity"}
    assert "translations" not in progress.texts


def test_without_a_dev_set_nothing_is_logged(config, model_dir) -> None:
    config = replace_settings(config, "data", dev_source=(), dev_target=())
    evaluation, _, _ = build_evaluation(config, model_dir, RecordingStepper())
    assert list(evaluation.padding_batches()) == []
    evaluation.trace_search()
    scores, progress, _ = evaluate(config, model_dir)
    assert (scores, progress.lines, progress.images) == ({}, [], {})


@pytest.mark.slow
def test_a_parsers_greedy_score_is_its_f1(config, model_dir) -> None:
    (source,), (target,) = config.data.dev_source, config.data.dev_target
    sentences = Path(source).read_text(encoding="utf-8").splitlines()
    symbols = [f"(S{' NN' * len(line.split())} )S" for line in sentences]
    Path(target).write_text("".join(f"{line}\n" for line in symbols), encoding="utf-8")
    config = replace_settings(config, "data", target_language="tree", max_length=64)
    config = replace_settings(config, "training", dev_bleu_sentences=3)
    scores, progress, _ = evaluate(config, model_dir)
    assert set(scores) == {"dev_loss", "dev_perplexity", "dev_f1_greedy"}
    assert f", F1 {scores['dev_f1_greedy']:.1f} (greedy)" in progress.lines[0]
    assert f"    = {symbols[0]}" in progress.texts["translations"]
    # A tree over the words, although the model is untrained.
    assert sentences[0].split()[-1] + ")" in progress.texts["translations"]
