"""Sentence splitter of a package of Argos Translate, as a model of MiniSBD.

Argos Translate splits a text with a model of MiniSBD, which it downloads, or which is
in the package. The one that is written here has a few rules and no weights, so a
package translates without a network: a sentence ends at a mark, perhaps with a closing
quote, before white space and something other than a lower-case letter. A period ends
none after an initial, nor after a number where ordinal numbers have one.

Source: minisbd 0.9.5, minisbd/modules; measured with argostranslate 1.11
(docs/argos.md).

Shapes: B paragraphs, L characters, padded.
"""

import json

import numpy as np

from t2t_keras.interop.onnx_file import Graph, Node, data_type, onnx_bytes
from t2t_keras.text.languages import base_language

# Classes of characters. MiniSBD gives each character an id: here, that of its class.
_PAD, _OTHER, _PERIOD, _MARK, _WIDE, _SPACE, _CLOSING, _LOWER, _UPPER, _DIGIT = range(
    10
)
_MARKS = "!?\u2026\u061f\u06d4\u0964\u0965\u0589\u1362\u17d4\u104b"
_WIDE_MARKS = "\u3002\uff01\uff1f"
_CLOSINGS = "\"'\u2019\u201d\u00bb\u203a\u300d\u300f\uff09)]"
# A closing quote in German and others, and an opening one in Chinese.
_AMBIGUOUS = "\u201c"
_WITHOUT_SPACES = ("zh", "zt", "ja")
# Languages that write ordinal numbers with a period: "am 3. Oktober".
_ORDINALS = "cs da de et fi hr hu is lv nb nn no pl sk sl sr tr".split()
# Cased letters after these code points are rare.
_LAST_LETTER = 0x24FF


def sentence_model(language: str) -> bytes:
    """Returns the content of a file `.onnx` of MiniSBD for texts in a language."""
    names = ["<PAD>", "<UNK>", *map(str, range(_PERIOD, _DIGIT + 1))]
    vocabulary = {
        "lang": language,
        "_unit2id": character_classes(language),
        "_id2unit": names,
    }
    # A feature is needed, though the rules use none.
    config = {"feat_funcs": ["capitalized"], "batch_size": 32, "max_seqlen": 1000}
    return onnx_bytes(
        build_rules(language),
        {
            "lang_code": language,
            "config": json.dumps(config),
            "vocab": json.dumps(vocabulary),
            "lexicon": "null",
        },
    )


def character_classes(language: str) -> dict[str, int]:
    """Returns the class of each character that is not of class "other", <UNK>."""
    ids = {"<PAD>": _PAD, "<UNK>": _OTHER}
    for point in range(_LAST_LETTER):
        character = chr(point)
        if character.isspace():
            ids[character] = _SPACE
        elif character.isdecimal():
            ids[character] = _DIGIT
        elif character.islower():
            ids[character] = _LOWER
        elif character.isupper():
            ids[character] = _UPPER
    closing = _CLOSINGS
    if base_language(language) not in _WITHOUT_SPACES:
        closing += _AMBIGUOUS
    for characters, kind in (
        (".", _PERIOD),
        (_MARKS, _MARK),
        (_WIDE_MARKS, _WIDE),
        (closing, _CLOSING),
    ):
        ids |= dict.fromkeys(characters, kind)
    return ids


class _Builder:
    """Nodes and constants of a graph, with a new name for each output."""

    def __init__(self):
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}

    def add(self, op: str, *inputs: str, **attributes: int) -> str:
        output = f"{op}_{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, output, attributes))
        return output

    def constant(self, *values: int) -> str:
        name = "constant_" + "_".join(map(str, values))
        self.constants[name] = np.array(values, np.int64)
        return name

    def is_one_of(self, units: str, *kinds: int) -> str:
        """Adds whether units [B, L] are of one of some classes."""
        found = [self.add("Equal", units, self.constant(kind)) for kind in kinds]
        result = found[0]
        for other in found[1:]:
            result = self.add("Or", result, other)
        return result


def build_rules(language: str) -> Graph:
    """Returns the graph from classes [B, L] to scores [B, L, 3]: inside, 1, and end."""
    build = _Builder()
    # Two characters before the first and after the last, of the class of padding.
    padded = build.add("Pad", "units", build.constant(0, 2, 0, 2))

    def shifted(by: int) -> str:
        start, end = build.constant(2 + by), build.constant(by - 2 if by < 2 else 2**62)
        return build.add("Slice", padded, start, end, build.constant(1))

    two_before, before, this, after, two_after = map(shifted, range(-2, 3))
    marks = _PERIOD, _MARK
    is_initial = build.add(
        "And",
        build.is_one_of(before, _UPPER),
        build.is_one_of(two_before, _PAD, _SPACE),
    )
    no_end = is_initial
    if base_language(language) in _ORDINALS:
        no_end = build.add("Or", no_end, build.is_one_of(before, _DIGIT))
    ends_none = build.add("And", build.is_one_of(this, _PERIOD), no_end)
    is_mark = build.add(
        "And", build.is_one_of(this, *marks), build.add("Not", ends_none)
    )
    is_closed = build.add(
        "And", build.is_one_of(this, _CLOSING), build.is_one_of(before, *marks)
    )
    goes_on = build.is_one_of(two_after, _LOWER)
    is_before_space = build.add(
        "And",
        build.is_one_of(after, _SPACE, _PAD),
        build.add("Not", goes_on),
    )
    ends = build.add("And", build.add("Or", is_mark, is_closed), is_before_space)
    # Chinese and Japanese need no white space.
    is_last_wide = build.add(
        "And",
        build.is_one_of(this, _WIDE),
        build.add("Not", build.is_one_of(after, _WIDE, _CLOSING)),
    )
    is_wide_closed = build.add(
        "And", build.is_one_of(this, _CLOSING), build.is_one_of(before, _WIDE)
    )
    wide = build.add("Or", is_last_wide, is_wide_closed)
    end = _scores(build, build.add("Or", ends, wide))
    build.nodes.append(Node("Identity", [end], "scores"))
    return Graph(
        build.nodes,
        build.constants,
        {"units": ("int64", 2), "features": ("float32", 3)},
        {"scores": ("float32", 3)},
    )


def _scores(build: _Builder, ends: str) -> str:
    """Adds scores of "inside a sentence", of the unused 1, and of "end" [B, L, 3]."""
    kind = data_type("float32")
    end = build.add("Cast", ends, to=kind)
    inside = build.add("Cast", build.add("Not", ends), to=kind)
    none = build.add("Mul", end, inside)
    columns = [
        build.add("Unsqueeze", each, build.constant(2)) for each in (inside, none, end)
    ]
    return build.add("Concat", *columns, axis=2)
