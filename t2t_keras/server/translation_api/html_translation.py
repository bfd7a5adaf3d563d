"""Translation of HTML: tags stay in place, or move with their words."""

import collections
import dataclasses
from collections.abc import Iterator, Sequence

import grpc

from t2t_keras.server.translation_api.attention_links import (
    Alignment,
    Span,
    align_in_order,
    align_words,
    find_words,
)
from t2t_keras.server.translation_api.html_runs import HtmlRun, Node, read_runs
from t2t_keras.server.translation_api.sentence_translation import (
    SentenceTranslator,
    is_translatable,
    with_gaps,
)
from t2t_keras.server.translation_api.tag_placement import (
    Element,
    elements_of_sentence,
    escape_text,
    place_tags,
)
from t2t_keras.server.translation_api.text_translation import split_text
from t2t_keras.serving.client.errors import ServerError


@dataclasses.dataclass(eq=False)
class _Sentence:
    """Sentence of a run: its text, start and end in the run's, and spacing after it."""

    text: str
    span: Span
    space: str
    elements: list[Element] = dataclasses.field(default_factory=list)
    """Elements whose tags move with its words."""


def translate_documents(
    documents: Sequence[str],
    language: str,
    translator: SentenceTranslator,
    heads: str = "",
) -> list[str]:
    """Returns the translation of each document or fragment of HTML.

    Args:
        documents: HTML, which need not be well-formed.
        language: Language of the text.
        translator: Translator of sentences; all sentences come in one call.
        heads: Heads that align words: see `align_words`.

    Raises:
        HttpError: If inline elements are nested too deeply.
    """
    pieces = [list(_split(document, language)) for document in documents]
    runs = [in_run for document in pieces for _, in_run in document]
    sentences = [each for in_run in runs for each in in_run]
    hypotheses = translator.translate([each.text for each in sentences])
    translations = [each[0] for each in hypotheses]
    alignments = _align(sentences, translations, translator, heads)
    rendered = iter(
        place_tags(sentence.text, translation, sentence.elements, alignment)
        if alignment
        else escape_text(translation)
        for sentence, translation, alignment in zip(
            sentences, _with_gaps(translations, runs), alignments, strict=True
        )
    )
    return [
        "".join(
            piece if isinstance(piece, str) else _join(piece, in_run, rendered)
            for piece, in_run in document
        )
        for document in pieces
    ]


def readable_text(document: str) -> str:
    """Returns the text of a document without its markup, a line for each run.

    Raises:
        HttpError: If inline elements are nested too deeply.
    """
    runs = [each for each in read_runs(document) if isinstance(each, HtmlRun)]
    return "\n".join(run.text for run in runs)


def _split(
    document: str, language: str
) -> Iterator[tuple[str | HtmlRun, list[_Sentence]]]:
    """Yields the parts of a document, each run with its sentences."""
    for run in read_runs(document):
        if isinstance(run, str):
            yield run, []
        elif not is_translatable(run.text):
            yield run.raw, []
        else:
            yield run, _sentences_of(run, language)


def _sentences_of(run: HtmlRun, language: str) -> list[_Sentence]:
    sentences, offset = [], 0
    for text, space in split_text(run.text, language, run.preformatted):
        if text:
            sentences.append(_Sentence(text, (offset, offset + len(text)), space))
        offset += len(text) + len(space)
    ends = [0, *(each.span[1] for each in sentences)]
    starts = [*(each.span[0] for each in sentences), len(run.text)]
    for number, each in enumerate(sentences):
        between = ends[number], starts[number + 1]
        if run.nodes:
            words = find_words(each.text)
            each.elements = elements_of_sentence(run.nodes, each.span, between, words)
    return sentences


def _align(
    sentences: Sequence[_Sentence],
    translations: Sequence[str],
    translator: SentenceTranslator,
    heads: str,
) -> list[Alignment | None]:
    """Returns the alignments of sentences with tags, None for others."""
    pending = [
        index
        for index, each in enumerate(sentences)
        if each.elements and is_translatable(each.text)
    ]
    pairs = [(sentences[i].text, translations[i]) for i in pending]
    alignments = [
        align_in_order(each.text, translation) if each.elements else None
        for each, translation in zip(sentences, translations, strict=True)
    ]
    try:
        attentions = translator.attention(pairs)
    except ServerError as error:
        if error.code is not grpc.StatusCode.FAILED_PRECONDITION:
            raise
        return alignments  # a model without this signature
    for index, pair, attention in zip(pending, pairs, attentions, strict=True):
        alignments[index] = align_words(*pair, attention, heads) or alignments[index]
    return alignments


def _with_gaps(
    translations: Sequence[str], runs: Sequence[Sequence[_Sentence]]
) -> Iterator[str]:
    """Yields translations, with a space at the end where one is missing in a run."""
    left = iter(translations)
    for sentences in runs:
        parts = [[next(left)] for _ in sentences]
        for part in with_gaps(parts, [each.space for each in sentences]):
            yield part[0]


def _join(run: HtmlRun, sentences: Sequence[_Sentence], rendered: Iterator[str]) -> str:
    """Returns a run with its sentences translated, and other tags where they were."""
    elements = [each for sentence in sentences for each in _all(sentence.elements)]
    opened = {id(each.node) for each in elements if each.starts}
    closed = {id(each.node) for each in elements if each.ends}
    tags = collections.deque(_tags(run.nodes, opened, closed))
    output, position = [], 0

    def write_until(offset: int) -> None:
        nonlocal position
        output.append(escape_text(run.text[position:offset]))
        position = offset

    for sentence in sentences:
        start, end = sentence.span
        while tags and tags[0][0] <= start:
            offset, tag = tags.popleft()
            write_until(offset)
            output.append(tag)
        write_until(start)
        output.append(next(rendered))
        position = end
    for offset, tag in tags:
        write_until(offset)
        output.append(tag)
    write_until(len(run.text))
    return "".join(output)


def _all(elements: Sequence[Element]) -> Iterator[Element]:
    for element in elements:
        yield element
        yield from _all(element.children)


def _tags(
    nodes: Sequence[Node], opened: set[int], closed: set[int]
) -> Iterator[tuple[int, str]]:
    """Yields offset and tag of the tags that are in no sentence, in order."""
    for node in nodes:
        if id(node) not in opened:
            yield node.start, node.opening
        yield from _tags(node.children, opened, closed)
        if id(node) not in closed:
            yield node.end, node.closing
