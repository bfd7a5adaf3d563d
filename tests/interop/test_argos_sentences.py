"""Sentence splitter of packages of Argos Translate, computed node by node in NumPy.

tests/system/test_argos.py computes it with ONNX Runtime, as Argos Translate does.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import pytest

from t2t_keras.interop.argos_sentences import build_rules, character_classes
from t2t_keras.interop.onnx_file import Graph


def _slice(x, starts, ends, axes):
    index = [slice(None)] * x.ndim
    for start, end, axis in zip(starts, ends, axes, strict=True):
        index[axis] = slice(start, end)
    return x[tuple(index)]


# By ONNX's definition of the operators.
OPERATORS: Mapping[str, Callable] = MappingProxyType(
    {
        "Pad": lambda x, pads: np.pad(x, [*zip(pads[:2], pads[2:], strict=True)]),
        "Slice": _slice,
        "Equal": np.equal,
        "And": np.logical_and,
        "Or": np.logical_or,
        "Not": np.logical_not,
        "Cast": lambda x, to: x.astype({1: np.float32}[to]),
        "Mul": np.multiply,
        "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
        "Concat": lambda *parts, axis: np.concatenate(parts, axis),
        "Identity": lambda x: x,
    }
)


def run(graph: Graph, units: np.ndarray) -> np.ndarray:
    values = {"units": units, **graph.constants}
    for node in graph.nodes:
        inputs = [values[name] for name in node.inputs]
        values[node.output] = OPERATORS[node.op](*inputs, **node.attributes)
    return values["scores"]


def split(text: str, language: str, padding: int = 1) -> list[str]:
    """Returns the sentences, as MiniSBD makes them of the ids of characters."""
    classes = character_classes(language)
    ids = [classes.get(character, classes["<UNK>"]) for character in text]
    units = np.array([ids + [classes["<PAD>"]] * padding])
    scores = run(build_rules(language), units)
    assert scores.shape == (*units.shape, 3) and scores.dtype == np.float32
    sentences, start = [], 0
    for end in np.flatnonzero(scores[0].argmax(-1)[: len(text)] == 2):
        sentences.append(text[start : end + 1].strip())
        start = end + 1
    rest = text[start:].strip()
    return [*sentences, rest] if rest else sentences


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["The dog sleeps.", "Did he?", "Yes!", "One line"]),
        ("en", ['"Did he?"', "(Yes.)", "He\u2026 slept.", "Hm\u2026", "So?!", "Ah."]),
        ("en", ["J. Smith came at 3 p.m. and left in May 3.", "October"]),
        ("de", ["Am 3. Oktober kam B. Brecht um 8. 30 an.", "\u201eSo.\u201c", "Ja."]),
        ("de-AT", ["Am 3. Oktober."]),
        ("ru", ["Он пришёл.", "Да?", "Нет."]),
        ("zh", ["他来了。", "\u201c真的\uff01\u201d", "是。", "好"]),
        ("hi", ["वह आया।", "हाँ"]),
    ],
)
def test_sentences_are_split(language, sentences) -> None:
    separator = "" if language == "zh" else " "
    text = separator.join(sentences)
    for padding in (1, 9):
        assert split(text, language, padding) == sentences


def test_rows_do_not_depend_on_each_other() -> None:
    graph, rng = build_rules("en"), np.random.default_rng(1)
    units = rng.integers(0, 10, (5, 40))
    together = run(graph, units)
    for row, scores in zip(units, together, strict=True):
        np.testing.assert_array_equal(run(graph, row[None])[0], scores)
