"""Translation of a stream of lines: by beam search or sampling, prefixes, reranking."""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO

from t2t_keras.errors import UserError, check_text
from t2t_keras.files.lines import Line, chunks
from t2t_keras.runs import models, translators
from t2t_keras.runs.tasks import check_translates
from t2t_keras.runs.translation.glossary_translation import GlossaryTranslation
from t2t_keras.runs.translation.request import TranslationRequest
from t2t_keras.runs.translation.word_aligner import WordAligner, build_aligner
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.normalization import normalize
from t2t_keras.text.protected_translation import translate_protected
from t2t_keras.text.word_alignments import Link, format_links
from t2t_keras.translation.paragraphs import translate_paragraphs
from t2t_keras.translation.reranking import rerank_by_chrf
from t2t_keras.translation.translator import TranslatedLine

logger = logging.getLogger(__name__)


class LineTranslator:
    """Translator of a stream of lines that answers a request.

    Args:
        trained: The model.
        decoding: Settings of the search. Sampling uses all but the beam size.
        request: Number and kind of the translations.

    Raises:
        UserError: If the beam search does not find as many translations.
    """

    def __init__(
        self,
        trained: models.TrainedModel,
        decoding: DecodingConfig,
        request: TranslationRequest,
    ):
        candidates, beam_size = request.candidates, decoding.beam_size
        if request.sample is None and candidates and candidates > beam_size:
            raise UserError(
                f"--candidates must be at most --beam_size={beam_size}, the number of "
                f"translations that a search finds. Received: {candidates}"
            )
        if request.target_tag:
            trained.vocabulary.source.symbol_ids(request.target_tag, "target_tag")
        if request.with_prefixes and trained.shortlist:
            longest = translators.longest_source(trained.model) + decoding.extra_length
            trained.shortlist.check_room(longest)
        self._request = request
        self._aligner: WordAligner | None = None
        self._linker: WordAligner | None = None
        if request.alignments:
            self._aligner = build_aligner(trained, request.alignment_heads)
        if request.protect:
            check_translates(trained.config.data.target_language, "protect")
            self._linker = build_aligner(trained, request.alignment_heads)
        self._language = trained.config.data.source_language
        self._translator = translators.text_translator(
            trained,
            decoding,
            request.hypotheses(decoding.beam_size),
            request.sample,
            request.with_prefixes,
        )
        self._terms = None
        if request.glossary is not None:
            self._terms = GlossaryTranslation(trained, decoding, request)

    def translate(
        self, lines: Iterable[Line], lines_at_once: int
    ) -> Iterator[TranslatedLine]:
        """Yields the translations of each line, in order.

        Args:
            lines: Each line with the beginning of its translation, which may be "".
            lines_at_once: Number of lines to read, sort by length and translate.

        Raises:
            UserError: If a prefix is longer than a translation may be.
        """
        first_line = 1
        for chunk in chunks(lines, lines_at_once):
            texts, prefixes = zip(*chunk, strict=True)
            for number, text in enumerate(texts, first_line):
                check_text(f"Line {number}", text)
            if self._request.paragraphs:
                yield from translate_paragraphs(
                    texts, self._language, self._translate_sentences
                )
            else:
                yield from self._translate_sentences(texts, prefixes, first_line)
            first_line += len(chunk)

    def _translate_sentences(
        self,
        texts: Sequence[str | bytes],
        prefixes: Sequence[str | bytes] = (),
        first_line: int = 1,
    ) -> list[TranslatedLine]:
        request = self._request
        if self._linker is None:
            translated = self._search(texts, prefixes, first_line)
        else:
            protection = _Protection(self._search, self._linker, len(texts), first_line)
            translated = translate_protected(texts, protection)
        if request.rerank:
            translated = [
                dataclasses.replace(
                    line, hypotheses=rerank_by_chrf(line.hypotheses)[: request.n_best]
                )
                for line in translated
            ]
        if self._aligner is None:
            return translated
        sources = [_add_tag(request.target_tag, text) for text in texts]
        pairs = [*zip(sources, (line.text for line in translated), strict=True)]
        links = self._aligner.align(pairs, words_before=1 if request.target_tag else 0)
        return [
            dataclasses.replace(line, alignment=each)
            for line, each in zip(translated, links, strict=True)
        ]

    def _search(
        self,
        texts: Sequence[str | bytes],
        prefixes: Sequence[str | bytes],
        first_line: int,
    ) -> list[TranslatedLine]:
        request = self._request
        sources = [_add_tag(request.target_tag, text) for text in texts]
        options = {
            "prefixes": prefixes if request.with_prefixes else None,
            "first_line": first_line,
        }
        if self._terms is not None:
            found = self._terms.find(texts)
            return self._terms.translate(sources, found, self._translator, options)
        seed = request.sample.seed if request.sample else None
        return self._translator.translate(sources, seed=seed, **options)


@dataclasses.dataclass(frozen=True)
class _Protection:
    """Backend of `translate_protected`.

    Attributes:
        search: Translates texts, given their prefixes and the number of the first.
        linker: Links the words of a text and its translation.
        count: Number of texts.
        first_line: Number of the first.
    """

    search: Callable[..., list[TranslatedLine]]
    linker: WordAligner
    count: int
    first_line: int

    def translate(
        self, numbers: Sequence[int], texts: Sequence[str | bytes]
    ) -> list[TranslatedLine]:
        """Returns the translations. Seeds are those of the lines' own numbers."""
        lines: list[str | bytes] = [""] * self.count
        for number, text in zip(numbers, texts, strict=True):
            lines[number] = text
        translated = self.search(lines, (), self.first_line)
        return [translated[number] for number in numbers]

    def link(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Link, ...]]:
        """Returns the links of the model's attention."""
        return self.linker.align(pairs)

    def texts(self, answer: TranslatedLine) -> list[str]:
        """Returns the texts of all hypotheses."""
        return [each.text for each in answer.hypotheses]

    def with_texts(self, answer: TranslatedLine, texts: list[str]) -> TranslatedLine:
        """Returns the line with other texts."""
        pairs = zip(answer.hypotheses, texts, strict=True)
        hypotheses = tuple(dataclasses.replace(each, text=text) for each, text in pairs)
        return dataclasses.replace(answer, hypotheses=hypotheses)


def _add_tag(tag: str | None, text: str | bytes) -> str | bytes:
    if not tag or not normalize(text):
        return text
    return f"{tag} {text}" if isinstance(text, str) else tag.encode() + b" " + text


def write_translations(
    translated: Iterable[TranslatedLine],
    output: IO[str],
    links: IO[str] | None,
    numbered: bool,
    with_scores: bool,
) -> None:
    """Writes a line for each translation, with fields separated by tabs, and flushes.

    If it is numbered, the number of the line comes first. Score and log probability, if
    wanted, precede the text.
    A second file, `links`, gets a line of links for each translated line.
    """
    for number, line in enumerate(translated, start=1):
        if line.truncated:
            logger.warning(f"line {number} is too long; its end was not translated")
        if line.unmet:
            logger.warning(
                f"line {number} lacks terms of the glossary: {', '.join(line.unmet)}"
            )
        for hypothesis in line.hypotheses:
            fields = [str(number)] if numbered else []
            if with_scores:
                fields += [f"{hypothesis.score:.6f}", f"{hypothesis.log_prob:.6f}"]
            output.write("\t".join([*fields, hypothesis.text]) + "\n")
        output.flush()
        if links is not None:
            links.write(format_links(line.alignment or ()) + "\n")
