"""Translates any number of lines: sorted, batched, searched, put back in order.

Shapes: B batch, S source length, N results a sentence.
"""

import concurrent.futures
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.text.padding import pad_sentences
from t2t_keras.text.reading import PlainTextAdapter, TextAdapter, TextReader
from t2t_keras.text.vocabulary import SubwordVocabulary
from t2t_keras.typing import Tensor

Search = Callable[[Tensor], BeamSearchResult]


@dataclasses.dataclass(frozen=True)
class Translation:
    """One hypothesis for one line.

    Attributes:
        text: The translation, without a line break.
        score: log_prob over the length penalty; what hypotheses are ranked by.
        log_prob: Natural log of the model's probability of all tokens.
        num_tokens: How many tokens, the end of sentence counted.
    """

    text: str
    score: float
    log_prob: float
    num_tokens: int


# What an empty line is translated to, without asking the model.
EMPTY = Translation("", 0.0, 0.0, 0)


@dataclasses.dataclass(frozen=True)
class TranslatedLine:
    """The n best hypotheses of a line, best first, and whether it was cut.

    Attributes:
        hypotheses: At least one, at most N.
        cut: Whether the source was longer than the limit, and its end ignored.
    """

    hypotheses: tuple[Translation, ...]
    cut: bool = False

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text


def batch_by_length(
    indices: Iterable[int], length: Callable[[int], int], max_tokens: int
) -> Iterator[list[int]]:
    """Yields indices in batches of like length, the longest first.

    Args:
        indices: Which sentences.
        length: Returns the length of the sentence of an index, at least 1.
        max_tokens: Most positions of a batch, padding counted; one sentence may exceed
            it.
    """
    batch: list[int] = []
    for index in sorted(indices, key=lambda i: -length(i)):
        if batch and (len(batch) + 1) * length(batch[0]) > max_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


class Translator:
    """Text in, text and scores out.

    A line's translation depends on that line alone: sentences are sorted by length
    for speed, each has a length limit of its own, and an empty line stays empty.

    Args:
        search: Source ids [B, S] int32, each row ended by EOS and padded with 0,
            to the N best of each.
        vocabulary: For both languages.
        max_source_length: Tokens, EOS counted, after which a source is cut.
        max_characters: Code points of a normalized line after which it is cut; if
            None, as `TextReader` has it.
        extra_length: How many tokens longer than its source a translation may be.
        tokens_per_batch: Most positions of translations in one call of `search`.
        at_once: Calls of `search` at a time. Two on two cores take two thirds of the
            time of one after the other on both: the products of a step are too small
            to be shared (benchmarks/README.md).
        text_adapter: What lines and translations look like outside.
    """

    def __init__(
        self,
        search: Search,
        vocabulary: SubwordVocabulary,
        *,
        max_source_length: int,
        max_characters: int | None = None,
        extra_length: int = 0,
        tokens_per_batch: int = 4096,
        at_once: int = 1,
        text_adapter: TextAdapter | None = None,
    ):
        self._search = search
        self._vocabulary = vocabulary
        self._reader = TextReader(vocabulary, max_source_length, max_characters)
        self._extra_length = extra_length
        self._tokens_per_batch = tokens_per_batch
        self._at_once = at_once
        self._text_adapter = text_adapter or PlainTextAdapter()

    def translate(
        self,
        lines: Sequence[str | bytes],
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> list[TranslatedLine]:
        """Returns the translations of all lines, in their order.

        Args:
            lines: Text, one sentence each; ill-formed UTF-8 is replaced.
            on_progress: Called with the number of lines done since the last call.
        """
        texts = [self._text_adapter.source(line) for line in lines]
        read = [self._reader.read(text) for text in texts]
        sources = [source for source, _ in read]
        results: list[TranslatedLine] = [TranslatedLine((EMPTY,))] * len(lines)
        # An empty line is nothing but the end of sentence.
        indices = [i for i, source in enumerate(sources) if len(source) > 1]
        on_progress(len(lines) - len(indices))
        batches = list(
            batch_by_length(
                indices,
                # What a search keeps in memory grows with the longest translation that
                # there must be room for.
                lambda i: len(sources[i]) + self._extra_length,
                self._tokens_per_batch,
            )
        )
        with concurrent.futures.ThreadPoolExecutor(self._at_once) as pool:
            ids = ([sources[i] for i in batch] for batch in batches)
            found = pool.map(self._translate_batch, ids)
            for batch, of_batch in zip(batches, found, strict=True):
                for index, hypotheses in zip(batch, of_batch, strict=True):
                    results[index] = TranslatedLine(
                        self._answers(texts[index], hypotheses), cut=read[index][1]
                    )
                on_progress(len(batch))
        return results

    def _answers(
        self, text: str | bytes, hypotheses: tuple[Translation, ...]
    ) -> tuple[Translation, ...]:
        source = self._reader.truncate(text)
        return tuple(
            dataclasses.replace(
                found, text=self._text_adapter.answer(source, found.text)
            )
            for found in hypotheses
        )

    def _translate_batch(
        self, sources: list[list[int]]
    ) -> list[tuple[Translation, ...]]:
        result = BeamSearchResult(
            *(part.numpy() for part in self._search(pad_sentences(sources)))
        )
        return [self._hypotheses(result, row) for row in range(len(sources))]

    def _hypotheses(
        self, result: BeamSearchResult, row: int
    ) -> tuple[Translation, ...]:
        found = tuple(
            Translation(
                self._vocabulary.decode(result.tokens[row, n].tolist()),
                float(result.scores[row, n]),
                float(result.log_probs[row, n]),
                int(result.lengths[row, n]),
            )
            for n in range(result.lengths.shape[1])
            # A slot of length 0 is empty: there were fewer hypotheses than N.
            if result.lengths[row, n]
        )
        # A model that lost its numbers finds nothing; the line stays a line.
        return found or (EMPTY,)
