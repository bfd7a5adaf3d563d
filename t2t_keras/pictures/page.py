"""Attention page for a browser: choose layer and heads, point at a word.

One file, which needs no network and asks for none: `templates/page.html.j2` with
style, script and weights in it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from t2t_keras.model.sentence_maps import AttentionMap, SentenceMaps, kind_title
from t2t_keras.pictures.palette import COLORS
from t2t_keras.pictures.words import join_pieces, merge_sentence_words

# Weights in the page are whole numbers of this part of 1: three digits.
SCALE = 1000

# Names of the units that the page can show.
SUBWORDS, WORDS = "subwords", "words"


def attention_page(
    sentences: Sequence[SentenceMaps],
    *,
    title: str = "Attention",
    kind: str = "encoder",
) -> str:
    """Returns the page as HTML.

    It shows every sentence by words and by subwords. Where no word has several
    subwords there is nothing to choose.

    Args:
        sentences: Maps of at least one sentence, from one model.
        title: Title of the page.
        kind: Kind of attention to show first, a field of `SentenceMaps`.
    """
    environment = Environment(
        loader=PackageLoader("t2t_keras.pictures"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    # The filter `tojson` escapes characters that could end the script element.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    data = page_data(sentences, kind)
    return environment.get_template("page.html.j2").render(title=title, data=data)


def page_data(sentences: Sequence[SentenceMaps], kind: str) -> Mapping[str, Any]:
    """Returns the data of the page's script: see `attention_page`.

    `sentences[i][unit][kind]` has the tokens as `queries` and `keys`, and `weights`,
    those of [R, H, Q, C] in a row, times `SCALE` and rounded.
    """
    heads = sentences[0].encoder.weights.shape[1]
    merged = [merge_sentence_words(maps) for maps in sentences]
    units: dict[str, Sequence[SentenceMaps]] = {WORDS: merged}
    if any(len(a.queries) != len(b.queries) for a, b in _pairs(sentences, merged)):
        units[SUBWORDS] = sentences
    kinds = SentenceMaps._fields
    return {
        "scale": SCALE,
        "colors": COLORS,
        "layers": {
            kind: part.weights.shape[0]
            for kind, part in zip(kinds, sentences[0], strict=True)
        },
        "heads": list(range(1, heads + 1)),
        "kind": kind,
        "kinds": kinds,
        "kind_titles": [kind_title(each) for each in kinds],
        "sides": {
            "encoder": ["source", "source"],
            "decoder": ["written so far", "written so far"],
            "memory": ["being written", "source"],
        },
        "units": list(units),
        "texts": [
            [join_pieces(maps.encoder.queries), join_pieces(maps.memory.queries)]
            for maps in sentences
        ],
        "sentences": [
            {
                unit: {
                    kind: _as_json(part)
                    for kind, part in zip(kinds, maps[number], strict=True)
                }
                for unit, maps in units.items()
            }
            for number in range(len(sentences))
        ],
    }


def _pairs(left: Sequence[SentenceMaps], right: Sequence[SentenceMaps]):
    """Yields the maps of both, side by side."""
    for maps in zip(left, right, strict=True):
        yield from zip(*maps, strict=True)


def _as_json(attention: AttentionMap) -> dict[str, Any]:
    weights = np.rint(np.asarray(attention.weights, "float64") * SCALE).astype(int)
    return {
        "queries": attention.queries,
        "keys": attention.keys,
        "weights": weights.ravel().tolist(),
    }
