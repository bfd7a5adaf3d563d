"""Pictures and tables of attention, written to files."""

import logging
from collections.abc import Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import write_text
from t2t_keras.model.sentence_maps import (
    AttentionMap,
    SentenceMaps,
    kind_title,
)
from t2t_keras.pictures.drawing import save_figure
from t2t_keras.pictures.head_figure import head_figure
from t2t_keras.pictures.head_statistics import HeadStatistics, HeadSums
from t2t_keras.pictures.head_table import as_markdown, as_tsv
from t2t_keras.pictures.heat_map_figure import heat_map_figure
from t2t_keras.pictures.line_figure import line_figure
from t2t_keras.pictures.page import attention_page
from t2t_keras.pictures.request import SUMMARY, PictureRequest
from t2t_keras.pictures.sentence_attention import Attention, AttentionModel
from t2t_keras.pictures.summary_corpus import read_summary_corpus
from t2t_keras.pictures.words import SPACE, merge_sentence_words

logger = logging.getLogger(__name__)


def visualize(
    model: AttentionModel,
    request: PictureRequest,
) -> list[Path]:
    """Draws sentences and summarizes a corpus; returns the files.

    Raises:
        UserError: If something chosen is not in the model or a sentence, or a file
            cannot be used.
    """
    what, attention = request.pictures, model.attention
    written: list[Path] = []

    def warn(cut: int) -> None:
        if cut:
            logger.warning(
                f"{cut} sentences or translations are too long; their ends "
                "are not shown"
            )

    if set(what) - {SUMMARY}:
        sources = [attention.source(sentence) for sentence in request.sentence]
        targets = request.translation or attention.translate(sources)
        drawn = list(attention.maps(sources, targets))
        warn(sum(cut for _, cut in drawn))
        sentences = [maps for maps, _ in drawn]
        written += write_pictures(sentences, what, request, request.folder)
    if SUMMARY in what:
        sources, targets = read_summary_corpus(model, request)
        heads, cut = summarize(attention, sources, targets)
        warn(cut)
        about = f"{model.name}, {len(sources):,} sentences"
        figure_format = request.format
        written += write_summary(heads, about, request.folder, figure_format)
    return written


def write_pictures(
    sentences: Sequence[SentenceMaps],
    what: Sequence[str],
    request: PictureRequest,
    folder: Path,
) -> list[Path]:
    """Draws sentences; returns the files.

    Args:
        sentences: One at least.
        what: Some of "lines", "heat_maps" and "page"; other names mean nothing here.
        request: Which maps of them. The page has all.
        folder: Made if it is not there.

    Raises:
        UserError: If something chosen is not there, or a file cannot be written.
    """
    _make(folder)
    shown = sentences
    if request.merge_subwords:
        shown = [merge_sentence_words(maps) for maps in sentences]
    written: list[Path] = []
    for number, maps in enumerate(shown, start=1):
        prefix = f"{number}-" if len(shown) > 1 else ""
        if "lines" in what:
            written += _write_lines(maps, request, folder, prefix)
        if "heat_maps" in what:
            written += _write_heat_maps(maps, request, folder, prefix)
    if "page" in what:
        page = folder / "attention.html"
        write_text(page, attention_page(sentences, kind=request.kind[0]))
        written.append(page)
    return written


def _write_lines(
    maps: SentenceMaps, request: PictureRequest, folder: Path, prefix: str
) -> list[Path]:
    written = []
    for kind in _kinds_with(maps, request):
        attention = getattr(maps, kind)
        last = attention.weights.shape[0]
        layer = last if request.layer is None else request.layer
        figure = line_figure(
            attention,
            layer,
            request.heads or None,
            words=request.words,
            title=f"{kind_title(kind)}, layer {layer}",
        )
        written.append(folder / f"{prefix}lines-{kind}-layer{layer}.{request.format}")
        save_figure(figure, written[-1])
    return written


def _kinds_with(maps: SentenceMaps, request: PictureRequest) -> Sequence[str]:
    """Returns the kinds that have all chosen words; if none has, the first of all."""
    kinds = [kind for kind in request.kind if _has(getattr(maps, kind), request.words)]
    return kinds or request.kind[:1]


def _has(attention: AttentionMap, words: Sequence[str]) -> bool:
    known = {*attention.queries, *(q.removeprefix(SPACE) for q in attention.queries)}
    return known.issuperset(words)


def _write_heat_maps(
    maps: SentenceMaps, request: PictureRequest, folder: Path, prefix: str
) -> list[Path]:
    written = []
    for kind in request.kind:
        # A heat map of all layers names each of them.
        layer = "" if request.layer is None else f"-layer{request.layer}"
        title = kind_title(kind)
        figure = heat_map_figure(getattr(maps, kind), request.layer, title=title)
        written.append(folder / f"{prefix}heat-maps-{kind}{layer}.{request.format}")
        save_figure(figure, written[-1])
    return written


def summarize(
    attention: Attention, sources: Sequence[str], targets: Sequence[str]
) -> tuple[list[HeadStatistics], int]:
    """Returns the statistics of each head over sentences, and how many were cut.

    Raises:
        UserError: If there is no sentence.
    """
    pairs = [pair for pair in zip(sources, targets, strict=True) if pair[0].strip()]
    if not pairs:
        raise UserError("There is no sentence to look at: all lines are empty.")
    # Sentences of similar length together, so that there is little padding.
    pairs.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
    sums, cut = HeadSums(attention.neighborhood), 0
    for maps, truncated in attention.maps(*zip(*pairs, strict=True)):
        sums.add(maps)
        cut += truncated
    return sums.means(), cut


def write_summary(
    heads: Sequence[HeadStatistics], about: str, folder: Path, figure_format: str
) -> list[Path]:
    """Writes the statistics of heads as TSV, Markdown and a figure, svg, png or pdf."""
    _make(folder)
    tsv, markdown = folder / "heads.tsv", folder / "heads.md"
    write_text(tsv, as_tsv(heads))
    write_text(markdown, as_markdown(heads, f"# What each head does\n\n{about}"))
    picture = folder / f"heads.{figure_format}"
    save_figure(head_figure(heads, title=about), picture)
    return [tsv, markdown, picture]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"The folder {folder} cannot be made: {error.strerror}. Give another "
            "--output."
        ) from error
