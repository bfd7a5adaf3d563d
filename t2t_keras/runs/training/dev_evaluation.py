"""Evaluation on the dev set during training: loss, score, translations, attention."""

import dataclasses
import time
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from t2t_keras.input_pipeline.batches.plan import ALL_ROWS, WorkerShard
from t2t_keras.model.attention_maps import attention_maps, legend, picture
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import translators
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.data.run_data import RunData
from t2t_keras.runs.training import optimization
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.text.padding import shift_right
from t2t_keras.training.progress import Progress
from t2t_keras.training.step import Stepper, loss_sums
from t2t_keras.typing import Batch

# Translations to show; sentences whose attention is drawn, and how many tokens of each.
SAMPLES = 5
DRAWN = 2
LONGEST_DRAWN = 40


class DevEvaluation:
    """Evaluates a model on the dev set while it trains.

    Args:
        config: The settings.
        data: Data of the run; its dev set may be None.
        model: The model being trained.
        stepper: Evaluates the model.
        progress: Receives a log line, translations and attention maps.
        heartbeat: Called between batches, for a watchdog.
        shard: Rows of each batch that this process computes.
        is_chief: Whether this process is the chief, which alone translates and draws
            attention maps. All workers compute the loss.
    """

    def __init__(
        self,
        config: ExperimentConfig,
        data: RunData,
        model: Transformer,
        stepper: Stepper,
        progress: Progress,
        heartbeat: Callable[[], object],
        *,
        shard: WorkerShard = ALL_ROWS,
        is_chief: bool = True,
    ):
        self._is_chief = is_chief
        self._config = config
        self._data = data
        self._model = model
        self._stepper = stepper
        self._progress = progress
        self._heartbeat = heartbeat
        self._computes_bleu = (
            is_chief and data.dev is not None and config.training.dev_bleu_sentences > 0
        )
        self._batches = None
        if data.dev is not None:
            self._batches = from_settings.build_evaluation(config.data, data.dev, shard)
        self._translator = translators.build_translator(
            model,
            data.vocabulary,
            dataclasses.replace(config.decoding, beam_size=1),
            text_adapter=data.task.text_adapter(splits_words=False),
        )

    def padding_batches(self) -> Iterator[Batch]:
        """Yields a batch of padding of each shape of the dev loss, the largest first.

        Without XLA, which compiles a program for each, the largest is enough.
        """
        if self._batches is None:
            return
        shapes = self._batches.shapes
        compiles = optimization.uses_xla(self._config.training)
        for shape in reversed(shapes) if compiles else shapes[-1:]:
            yield self._batches.padding_batch(shape)
            self._heartbeat()

    def trace_search(self) -> None:
        """Traces the graph of the search by translating one sentence.

        One graph serves all sentences. XLA does not compile it.
        """
        if self._computes_bleu:
            before = time.monotonic()
            self._translator.translate([pair["source"] for pair in self._pairs(1)])
            seconds = time.monotonic() - before
            self._progress.log(f"  greedy search traced: {seconds:.1f}s")
            self._heartbeat()

    def scores(self, step: int) -> dict[str, float]:
        """Logs and returns dev loss, perplexity and BLEU; empty without a dev set.

        A parser has bracket F1 instead of BLEU.
        """
        if self._batches is None:
            return {}
        sums = loss_sums(self._stepper, self._batches, self._heartbeat)
        loss = sums.log_loss_sum / sums.token_count
        scores = {"dev_loss": loss, "dev_perplexity": float(np.exp(loss))}
        if not self._is_chief:
            return scores
        line = f"  dev: loss {loss:.3f}, perplexity {scores['dev_perplexity']:.2f}"
        if self._computes_bleu:
            name, value = self._score_translations(step)
            scores[f"dev_{name.lower()}_greedy"] = value
            line += f", {name} {value:.1f} (greedy)"
        self._progress.log(line)
        self._draw_attention(step)
        return scores

    def _pairs(self, count: int) -> list[dict[str, bytes]]:
        return list(self._data.corpus.pairs("dev").take(count).as_numpy_iterator())

    def _score_translations(self, step: int) -> tuple[str, float]:
        """Returns name and value of the score of greedy translations; logs samples."""
        pairs = self._pairs(self._config.training.dev_bleu_sentences)
        lines = self._translator.translate(
            [pair["source"] for pair in pairs], on_progress=lambda _: self._heartbeat()
        )
        translations = [line.text for line in lines]
        sources, references = (
            [pair[side].decode(errors="replace") for pair in pairs]
            for side in ("source", "target")
        )
        samples = [
            f"    {source}\n    → {translation}\n    = {reference}"
            for source, translation, reference in zip(
                sources[:SAMPLES], translations, references, strict=False
            )
        ]
        title = "Source, → greedy translation, = reference\n\n"
        self._progress.text(step, "translations", title + "\n    \n".join(samples))
        score = self._data.task.scorer()
        return score(sources, translations, references).headline

    def _draw_attention(self, step: int) -> None:
        """Logs attention maps of the last layers for the first dev sentences."""
        vocabulary = self._data.vocabulary
        for number, pair in enumerate(self._pairs(DRAWN), start=1):
            source = vocabulary.source.encode(pair["source"])[:LONGEST_DRAWN]
            target = vocabulary.encode(pair["target"])[:LONGEST_DRAWN]
            maps = attention_maps(
                self._model, tf.constant([source]), shift_right(tf.constant([target]))
            )
            for name, weights_BRHQC in maps._asdict().items():
                pixels = picture(np.asarray(weights_BRHQC)[0, -1])
                self._progress.image(step, f"attention_{number}/{name}", pixels)
            sides = vocabulary.source.pieces(source), vocabulary.pieces(target)
            self._progress.text(step, f"attention_{number}/tokens", legend(*sides))
            self._heartbeat()
