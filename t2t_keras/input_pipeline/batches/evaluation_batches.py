"""The batches of an evaluation: every pair once, in a few shapes known beforehand."""

from collections.abc import Iterator

from t2t_keras.input_pipeline.batches.batching import gather_batch, make_batch
from t2t_keras.input_pipeline.batches.bucketing import bucket_shapes
from t2t_keras.input_pipeline.batches.features import check_batch
from t2t_keras.input_pipeline.batches.plan import (
    ALL_ROWS,
    PlannedBatch,
    WorkerShare,
    padding_only,
    plan_evaluation,
)
from t2t_keras.input_pipeline.records.tokenized import TokenizedCorpus
from t2t_keras.typing import Batch, BatchShape


class EvaluationBatches:
    """Batches of every pair once, small shapes first, a row for each.

    Args:
        corpus: What to evaluate on. The shapes are chosen from its own lengths.
        max_shapes: Most shapes; see `bucket_shapes`.
        tokens_per_batch: Most padded positions a side; see `batch_shape`.
        share: Which rows of each batch this process makes.

    Raises:
        UserError: If `tokens_per_batch` is too small for the longest sentence.
    """

    def __init__(
        self,
        corpus: TokenizedCorpus,
        *,
        max_shapes: int,
        tokens_per_batch: int,
        share: WorkerShare = ALL_ROWS,
    ):
        shapes = bucket_shapes(
            corpus.lengths, max_shapes=max_shapes, tokens_per_batch=tokens_per_batch
        )
        self._corpus = corpus
        self._plan = list(map(share.of, plan_evaluation(corpus.lengths, shapes)))

    def __len__(self) -> int:
        return len(self._plan)

    def __iter__(self) -> Iterator[Batch]:
        return map(self._made, self._plan)

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """Those that the batches of this process have, from small to large."""
        return tuple(dict.fromkeys(planned.shape for planned in self._plan))

    def of_padding(self, shape: BatchShape) -> Batch:
        """Returns a batch of a shape that no pair is in."""
        return self._made(padding_only(shape))

    def _made(self, planned: PlannedBatch) -> Batch:
        batch = make_batch(gather_batch(self._corpus, planned))
        check_batch(batch)
        return {name: feature.numpy() for name, feature in batch.items()}
