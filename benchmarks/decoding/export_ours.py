"""Writes the model as a SavedModel of ids: what `python -m t2t_keras.export` writes.

Only outputs are told how long to be, for all programs to do the same work.
"""

import argparse
import dataclasses
from pathlib import Path

import tensorflow as tf

from benchmarks.decoding import measured
from benchmarks.decoding.write import built, config_of
from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.decoding.transformer_search import search_translations
from t2t_keras.runs import exporting, models
from t2t_keras.runs.tasks import task_for
from t2t_keras.serving import signature
from t2t_keras.serving.export.compiled_search import compile_search
from t2t_keras.serving.export.ids_module import IdsModule
from t2t_keras.serving.export.limits import ServingLimits
from t2t_keras.typing import Tensor

# The shortest source has 20 tokens, and every output is to have 25.
EXTRA = 5
# Longer than every source, and one length for XLA to compile for, as exports have it.
LONGEST, BUCKETS = 128, (32, 128)


def main() -> None:
    """Writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--xla", default="off")
    parser.add_argument("--real_lengths", action="store_true")
    given = parser.parse_args()
    trained = models.TrainedModel(
        built(config_of(), measured.VOCABULARY),
        _Numbers(measured.VOCABULARY),  # type: ignore[arg-type]
        config_of(),
        Path("nowhere"),
        step=0,
        task=task_for(config_of().data.target_language),
    )
    trained = exporting.in_precision(trained, given.precision)

    def search(
        source: Tensor,
        settings: BeamSearchSettings,
        *,
        options: RowOptions | None = None,
        growing: bool = True,
    ) -> BeamSearchResult:
        # As many tokens as a sentence's own source has, or 25 of each.
        return search_translations(
            trained.model,
            source,
            settings,
            0 if given.real_lengths else EXTRA,
            options,
            max_length=None if given.real_lengths else measured.LENGTH,
            growing=growing,
        )

    served = exporting.served_model(trained, EXTRA)
    module = IdsModule(
        dataclasses.replace(
            served,
            search=compile_search(search, BUCKETS) if given.xla == "on" else search,
        ),
        trained.vocabulary,
        BeamSearchSettings(measured.BEAM, measured.ALPHA),
        ServingLimits(source_length=LONGEST, target_length=LONGEST),
    )
    signatures = {signature.TRANSLATE_IDS: module.translate_ids}
    tf.saved_model.save(module, given.to, signatures=signatures)


@dataclasses.dataclass(frozen=True)
class _Numbers:
    """A vocabulary of ids that stand for nothing."""

    size: int

    def decode_in_graph(self, ids: Tensor) -> Tensor:
        """Returns each row's ids, as text [B]."""
        return tf.strings.reduce_join(tf.strings.as_string(ids), 1, separator=" ")


if __name__ == "__main__":
    main()
