"""Bulk translation: sorts lines by length, batches, searches, and restores the order.

Shapes: B batch, S source length, N results per sentence.
"""

import concurrent.futures
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.errors import UserError
from t2t_keras.files.lines import line_seed
from t2t_keras.text.padding import pad_sentences
from t2t_keras.text.reading import PlainTextAdapter, TextAdapter, TextReader
from t2t_keras.text.vocabulary import Vocabulary

# Further arguments are `terms` [B, C, P] int32, `prefixes` [B, P] int32 and `seeds`, a
# list of B numbers, if `Translator.translate` is called with them, and `first_tokens`,
# B ids, if the vocabulary has languages.
Search = Callable[..., BeamSearchResult]


@dataclasses.dataclass(frozen=True)
class Translation:
    """One hypothesis for one line.

    Attributes:
        text: The translation, without a line break.
        score: log_prob divided by the length penalty, which ranks hypotheses.
        log_prob: Natural log of the model's probability of all tokens.
        num_tokens: Number of tokens, including the end of the sentence.
    """

    text: str
    score: float
    log_prob: float
    num_tokens: int


# Translation of an empty line, which the model does not see.
EMPTY = Translation("", 0.0, 0.0, 0)


@dataclasses.dataclass(frozen=True)
class TranslatedLine:
    """The n best translations of a line, and whether the line was truncated.

    Attributes:
        hypotheses: One to N translations, best first.
        truncated: Whether the source exceeded the limit, and its end was ignored.
        alignment: Links of words of the line with words of its best translation, both
            counted from 0; None if they were not asked for.
        unmet: Target terms of a glossary that the best translation does not have.
    """

    hypotheses: tuple[Translation, ...]
    truncated: bool = False
    alignment: tuple[tuple[int, int], ...] | None = None
    unmet: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text


def batch_by_length(
    indices: Iterable[int], length: Callable[[int], int], max_tokens: int
) -> Iterator[list[int]]:
    """Yields batches of indices of sentences of similar length, the longest first.

    Args:
        indices: Indices of the sentences.
        length: Returns the length of the sentence at an index, at least 1.
        max_tokens: Maximum positions of a batch, including padding. A single sentence
            may exceed it.
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
    """Translates lines of text, with scores.

    A line's translation depends on that line alone: sentences are sorted by length
    for speed, each has its own length limit, and an empty line stays empty.

    Args:
        search: Maps source ids [B, S] int32, each row ended by EOS and padded with 0,
            to the N best hypotheses of each row.
        vocabulary: Shared vocabulary of both languages.
        max_source_length: Maximum source tokens, including EOS; the rest is cut.
        max_characters: Maximum code points of a normalized line; the rest is cut.
            Default: that of `TextReader`.
        extra_length: Maximum tokens that a translation has beyond its source's.
        tokens_per_batch: Maximum positions of translations in one call of `search`.
        max_searches: Concurrent calls of `search`. On two cores, two concurrent calls
            take two thirds of the time of two successive ones: the matrix products of a
            step are too small to be split between cores (benchmarks/README.md).
        text_adapter: Converts lines to sources, and outputs to translations.
    """

    def __init__(
        self,
        search: Search,
        vocabulary: Vocabulary,
        *,
        max_source_length: int,
        max_characters: int | None = None,
        extra_length: int = 0,
        tokens_per_batch: int = 4096,
        max_searches: int = 1,
        text_adapter: TextAdapter | None = None,
    ):
        self._search = search
        self._vocabulary = vocabulary
        self._reader = TextReader(vocabulary.source, max_source_length, max_characters)
        self._extra_length = extra_length
        self._tokens_per_batch = tokens_per_batch
        self._max_searches = max_searches
        self._text_adapter = text_adapter or PlainTextAdapter()

    def translate(
        self,
        lines: Sequence[str | bytes],
        on_progress: Callable[[int], object] = lambda _: None,
        *,
        prefixes: Sequence[str | bytes] | None = None,
        seed: int | None = None,
        first_line: int = 1,
        terms: Sequence[Sequence[Sequence[int]]] | None = None,
    ) -> list[TranslatedLine]:
        """Returns the translations of all lines, in order.

        Args:
            lines: Text, one sentence each; invalid UTF-8 is replaced.
            on_progress: Called with the number of lines done since the last call.
            prefixes: Beginning of each translation; "" for none. Ignored for an empty
                line. The search must take prefixes.
            seed: Seed, if translations are sampled. The search must take seeds.
            first_line: Number of the first line, which counts for seeds and messages.
            terms: Ids of the terms that each translation must have. The search must
                take terms.

        Raises:
            UserError: If a prefix is longer than a translation may be.
        """
        texts = [self._text_adapter.source(line) for line in lines]
        tokenized = [self._reader.read(text) for text in texts]
        sources = [source for source, _ in tokenized]
        results: list[TranslatedLine] = [TranslatedLine((EMPTY,))] * len(lines)
        # The only token of an empty line is EOS.
        indices = [i for i, source in enumerate(sources) if len(source) > 1]
        on_progress(len(lines) - len(indices))
        numbers = range(first_line, first_line + len(lines))
        options = self._row_options(sources, prefixes, numbers, indices)
        if terms is not None:
            options["terms"] = list(terms)
        if seed is not None:
            options["seeds"] = [line_seed(seed, number) for number in numbers]

        def translate_batch(batch: list[int]) -> list[tuple[Translation, ...]]:
            rows = {name: [each[i] for i in batch] for name, each in options.items()}
            result = self._search_batch([sources[i] for i in batch], rows)
            if "prefixes" in rows:
                _check_prefixes(result, rows["prefixes"], [numbers[i] for i in batch])
            return [self._decode_row(result, row) for row in range(len(batch))]

        batches = list(
            batch_by_length(
                indices,
                # Memory of a search grows with the maximum length of a translation.
                lambda i: len(sources[i]) + self._extra_length,
                self._tokens_per_batch,
            )
        )
        with concurrent.futures.ThreadPoolExecutor(self._max_searches) as pool:
            translated = pool.map(translate_batch, batches)
            for batch, batch_hypotheses in zip(batches, translated, strict=True):
                for index, hypotheses in zip(batch, batch_hypotheses, strict=True):
                    results[index] = TranslatedLine(
                        self._adapt_hypotheses(texts[index], hypotheses),
                        truncated=tokenized[index][1],
                    )
                on_progress(len(batch))
        return results

    def _row_options(
        self,
        sources: Sequence[list[int]],
        prefixes: Sequence[str | bytes] | None,
        numbers: Sequence[int],
        indices: Iterable[int],
    ) -> dict[str, list[Any]]:
        """Returns the prefix, and the first token, of each source.

        Raises:
            UserError: If one of those at `indices` has too long a prefix.
        """
        options: dict[str, list[Any]] = {}
        if prefixes is not None:
            encode = self._vocabulary.encode
            options["prefixes"] = [encode(each)[:-1] for each in prefixes]
            for i in indices:
                # The search finds shorter limits too, of learned positions.
                most = len(sources[i]) + self._extra_length - 1
                if len(options["prefixes"][i]) > most:
                    raise _prefix_error(options["prefixes"][i], most, numbers[i])
        if self._vocabulary.tag_id is not None:
            options["first_tokens"] = [self._vocabulary.tag_id] * len(sources)
        return options

    def _adapt_hypotheses(
        self, text: str | bytes, hypotheses: tuple[Translation, ...]
    ) -> tuple[Translation, ...]:
        source = self._reader.truncate(text)
        return tuple(
            dataclasses.replace(each, text=self._text_adapter.answer(source, each.text))
            for each in hypotheses
        )

    def _search_batch(
        self, sources: list[list[int]], options: Mapping[str, list[Any]]
    ) -> BeamSearchResult:
        """Returns the hypotheses of a batch as NumPy arrays."""
        rows: dict[str, Any] = dict(options)
        if "prefixes" in rows:
            rows["prefixes"] = pad_sentences(rows["prefixes"])
        if "terms" in rows:
            rows["terms"] = _pad_terms(rows["terms"])
        result = self._search(pad_sentences(sources), **rows)
        return BeamSearchResult(*(part.numpy() for part in result))

    def _decode_row(
        self, result: BeamSearchResult, row: int
    ) -> tuple[Translation, ...]:
        hypotheses = tuple(
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
        # A model with NaN weights finds no hypothesis; the line is then empty.
        return hypotheses or (EMPTY,)


def _pad_terms(rows: Sequence[Sequence[Sequence[int]]]) -> np.ndarray:
    """Returns [B, C, P] int32, the ids of the terms of each row, padded with 0."""
    count = max(1, *map(len, rows))
    width = max((len(term) for row in rows for term in row), default=1)
    padded = np.zeros([len(rows), count, width], np.int32)
    for row, terms in enumerate(rows):
        for number, term in enumerate(terms):
            padded[row, number, : len(term)] = term
    return padded


def _check_prefixes(
    result: BeamSearchResult, prefixes: list[list[int]], numbers: list[int]
) -> None:
    """Raises `UserError` if a translation does not begin with all of its prefix."""
    for row, (prefix, number) in enumerate(zip(prefixes, numbers, strict=True)):
        length = int(result.lengths[row, 0])
        # Without a hypothesis, as of a model with NaN weights, the length is 0.
        if length and result.tokens[row, 0, : len(prefix)].tolist() != prefix:
            raise _prefix_error(prefix, length - 1, number)


def _prefix_error(prefix: list[int], most: int, number: int) -> UserError:
    return UserError(
        f"The prefix of line {number} has {len(prefix)} tokens, but a translation of "
        f"this line has at most {most}. Shorten it, or raise --extra_length."
    )
