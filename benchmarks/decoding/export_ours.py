"""Export of the model as a SavedModel of ids, as `python -m t2t_keras.export` makes it.

Only the length of outputs is fixed, so that all programs do the same work.
"""

import argparse
import dataclasses
from pathlib import Path

import tensorflow as tf

from benchmarks.decoding import measured
from benchmarks.decoding.write import base_config, build_model
from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.decoding.transformer_search import search_translations
from t2t_keras.runs import models
from t2t_keras.runs.export import saved_model
from t2t_keras.runs.tasks import task_for
from t2t_keras.serving import signature
from t2t_keras.serving.export.ids_module import IdsModule, compile_search
from t2t_keras.serving.export.limits import ServingLimits
from t2t_keras.typing import Tensor

# The shortest source has 20 tokens, and every output has to have 25.
EXTRA = 5
# Longer than every source; XLA compiles for these lengths, as in other exports.
LONGEST, BUCKETS = 128, (32, 128)


def main() -> None:
    """Writes the SavedModel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--xla", default="off")
    parser.add_argument("--real_lengths", action="store_true")
    parser.add_argument("--layers")
    args = parser.parse_args()
    config = base_config(args.layers)
    trained = models.TrainedModel(
        build_model(config, measured.VOCABULARY),
        _NumberVocabulary(measured.VOCABULARY),  # type: ignore[arg-type]
        config,
        Path("nowhere"),
        step=0,
        task=task_for(config.data.target_language),
    )
    trained = saved_model.in_precision(trained, args.precision)

    def search(
        source: Tensor,
        settings: BeamSearchSettings,
        *,
        options: RowOptions | None = None,
        growing: bool = True,
    ) -> BeamSearchResult:
        # Outputs have the length of their source, or 25 tokens each.
        return search_translations(
            trained.model,
            source,
            settings,
            0 if args.real_lengths else EXTRA,
            options,
            max_length=None if args.real_lengths else measured.LENGTH,
            growing=growing,
        )

    served = saved_model.build_served_model(trained, EXTRA)
    module = IdsModule(
        dataclasses.replace(
            served,
            search=compile_search(search, BUCKETS) if args.xla == "on" else search,
        ),
        trained.vocabulary,
        BeamSearchSettings(measured.BEAM, measured.ALPHA),
        ServingLimits(source_length=LONGEST, target_length=LONGEST),
    )
    signatures = {signature.TRANSLATE_IDS: module.translate_ids}
    tf.saved_model.save(module, args.to, signatures=signatures)


@dataclasses.dataclass(frozen=True)
class _NumberVocabulary:
    """A vocabulary whose subwords are the ids as decimal numbers."""

    size: int
    languages: None = None
    tag_id: None = None

    @property
    def source(self) -> "_NumberVocabulary":
        """The vocabulary of sources."""
        return self

    def decode_in_graph(self, ids: Tensor) -> Tensor:
        """Returns each row's ids, as text [B]."""
        return tf.strings.reduce_join(tf.strings.as_string(ids), 1, separator=" ")


if __name__ == "__main__":
    main()
