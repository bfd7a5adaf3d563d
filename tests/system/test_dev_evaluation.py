"""What an evaluation says, returns and shows."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_keras import experiment
from t2t_keras.dev_evaluation import SAMPLES, DevEvaluation
from t2t_keras.run_data import prepare_data
from tests.system.changed import changed


class Shown:
    """Takes the place of a `Progress`."""

    def __init__(self):
        self.lines: list[str] = []
        self.texts: dict[str, str] = {}
        self.images: dict[str, np.ndarray] = {}

    def say(self, text: str) -> None:
        self.lines.append(text)

    def text(self, step: int, tag: str, markdown: str) -> None:
        assert step == 6
        self.texts[tag] = markdown

    def image(self, step: int, tag: str, pixels: np.ndarray) -> None:
        assert step == 6
        self.images[tag] = pixels


def evaluated(config, model_dir) -> tuple[dict[str, float], Shown, list[None]]:
    data = prepare_data(config, model_dir, lambda _: None)
    model = experiment.build_model(config, data.vocabulary.size)
    strategy = tf.distribute.get_strategy()
    optimizer = experiment.build_optimizer(config, model)
    stepper = experiment.build_stepper(config.training, model, optimizer, strategy)
    shown, alive = Shown(), []
    evaluation = DevEvaluation(
        config,
        data,
        model,
        stepper,
        shown,  # type: ignore[arg-type]
        lambda: alive.append(None),
    )
    return evaluation.scores(6), shown, alive


def test_scores_are_said_and_translations_and_attention_shown(
    config, model_dir
) -> None:
    config = changed(config, "training", dev_bleu_sentences=7)
    scores, shown, alive = evaluated(config, model_dir)
    assert set(scores) == {"dev_loss", "dev_perplexity", "dev_bleu_greedy"}
    assert scores["dev_perplexity"] == np.exp(scores["dev_loss"])
    assert len(shown.lines) == 1
    assert f"dev: loss {scores['dev_loss']:.3f}, perplexity " in shown.lines[0]
    (source,) = config.data.dev_source
    sources = Path(source).read_text(encoding="utf-8").splitlines()
    text = shown.texts["translations"]
    assert text.count("→") == SAMPLES + 1
    assert all(f"    {source}\n    → " in text for source in sources[:SAMPLES])
    # Encoder, decoder and cross attention of two sentences, with their words.
    assert set(shown.images) == {
        f"attention_{number}/{name}"
        for number in (1, 2)
        for name in ("encoder", "decoder", "memory")
    }
    legend = shown.texts["attention_2/tokens"]
    pieces = [row.split(" | ")[1].strip("`") for row in legend.splitlines()[2:]]
    joined = "".join(piece for piece in pieces if piece != "</s>")
    assert joined.replace("▁", " ").strip() == sources[1]
    assert len(alive) > 3


def test_without_translations_there_is_still_a_loss(config, model_dir) -> None:
    scores, shown, _ = evaluated(config, model_dir)
    assert set(scores) == {"dev_loss", "dev_perplexity"}
    assert "translations" not in shown.texts


def test_without_a_dev_set_there_is_nothing_to_say(config, model_dir) -> None:
    config = changed(config, "data", dev_source=(), dev_target=())
    scores, shown, _ = evaluated(config, model_dir)
    assert (scores, shown.lines, shown.images) == ({}, [], {})
