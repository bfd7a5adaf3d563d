"""Word alignment of sentence pairs by the attention of a run's model.

Shapes: B batch, S source length, T target length, R layers of the decoder, H heads.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.model.attention_maps import attention_maps
from t2t_keras.runs import models, translators
from t2t_keras.runs.tasks import TREES
from t2t_keras.text.padding import pad_sentences, shift_right
from t2t_keras.text.reading import TextReader
from t2t_keras.text.word_alignments import (
    Link,
    head_shares,
    link_words,
)
from t2t_keras.text.word_numbers import default_layer, word_numbers
from t2t_keras.translation.translator import batch_by_length
from t2t_keras.typing import Tensor

# Maximum positions of one side in a batch, including padding. The weights of its heads
# are [positions, S].
_TOKENS_PER_BATCH = 1024


class WordAligner:
    """Aligner of the words of sentence pairs.

    The model reads the target (teacher forcing), and each target word is linked to the
    source word to which its subwords attend most, by the mean of some heads of the
    cross-attention.

    Args:
        trained: The model.
        heads: Heads to average, as in `head_shares`. Default: the head that
            --guided_alignment has trained in this run, or else all heads of
            `default_layer`.

    Raises:
        UserError: If the model does not have a head, or is a parser.
    """

    def __init__(self, trained: models.TrainedModel, heads: str | None = None):
        if trained.config.data.target_language == TREES:
            raise UserError(
                "Word alignments are for translations, but this model is a parser, "
                "whose output is a tree over the words. Leave --alignments out."
            )
        model, sizes = trained.model, trained.model.sizes
        if heads is None and trained.config.training.guided_alignment > 0:
            heads = f"{model.decoder.alignment_layer + 1}:1"
        elif heads is None:
            heads = str(default_layer(sizes["decoder_layers"]))
        shares_RH = head_shares(heads, sizes["decoder_layers"], sizes["num_heads"])

        def mean_weights(source: Tensor, shifted: Tensor) -> Tensor:
            weights_BRHTS = attention_maps(model, source, shifted).memory
            return tf.einsum("rh,brhts->bts", shares_RH, weights_BRHTS)

        self._compute = models.trace_on_ids(mean_weights)
        self._text_adapter = trained.task.text_adapter(splits_words=True)
        self._vocabulary = trained.vocabulary
        longest = translators.longest_source(model)
        # Of the source, and of the target.
        self._readers = [
            TextReader(side, longest)
            for side in (trained.vocabulary.source, trained.vocabulary)
        ]

    def align(
        self,
        pairs: Sequence[tuple[str | bytes, str | bytes]],
        words_before: int = 0,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> list[tuple[Link, ...]]:
        """Returns the links of each pair, in order, sorted.

        A word beyond the model's maximum length has no link. If a side is empty, there
        is none.

        Args:
            pairs: Source and target text.
            words_before: Number of words at the begin of each source that are not part
                of the user's text, such as a tag. They get no links.
            on_progress: Called with the number of pairs done since the last call.
        """
        ids = [
            [
                reader.read(text)[0]
                for reader, text in zip(
                    self._readers,
                    (self._text_adapter.source(source), target),
                    strict=True,
                )
            ]
            for source, target in pairs
        ]
        links: list[tuple[Link, ...]] = [()] * len(pairs)
        # The only token of an empty side is EOS.
        filled = [i for i, sides in enumerate(ids) if min(map(len, sides)) > 1]
        on_progress(len(pairs) - len(filled))
        for batch in batch_by_length(
            filled, lambda i: max(map(len, ids[i])), _TOKENS_PER_BATCH
        ):
            source_BS, target_BT = (
                pad_sentences([ids[i][side] for i in batch]) for side in (0, 1)
            )
            weights_BTS = self._compute(source_BS, shift_right(target_BT)).numpy()
            for i, weights_TS in zip(batch, weights_BTS, strict=True):
                # Without EOS, to which words attend that translate nothing.
                source, target = (
                    word_numbers(vocabulary.marked_pieces(side[:-1]))
                    for vocabulary, side in zip(
                        (self._vocabulary.source, self._vocabulary), ids[i], strict=True
                    )
                )
                source = [number - words_before for number in source]
                weights_TS = weights_TS[: len(target), : len(source)]
                links[i] = tuple(link_words(weights_TS, source, target))
            on_progress(len(batch))
        return links


def build_aligner(trained: models.TrainedModel, heads: str | None) -> WordAligner:
    """Returns the aligner of a model, which traces its graph once."""
    key = "align", heads, trained.languages
    return trained.keep(key, lambda: WordAligner(trained, heads))
