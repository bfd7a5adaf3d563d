"""Head statistics, compared with a slow loop over weights and with values by hand."""

import math

import numpy as np
import pytest

from t2t_keras.model.sentence_maps import SentenceMaps, sentence_maps
from t2t_keras.pictures.head_statistics import LONG, NEAR, HeadSums
from tests.pictures.random_maps import SOURCE, TARGET, H, R, random_maps

MARKS = (".", "-->", "▁|", "▁`", "▁%", "▁...")
LONG_SOURCE = (*(f"▁w{number}" for number in range(9)), "▁...", ".", "</s>")


def slow_statistics(
    sentences: list[SentenceMaps], kind: str, layer: int, head: int, reach: float
) -> dict[str, float]:
    """Returns the means, computed one weight at a time in Python floats."""
    totals = dict.fromkeys(
        (
            "previous",
            "same",
            "next",
            "begin",
            "end",
            "punctuation",
            "near",
            "distant",
            "distance",
            "entropy",
            "most",
            "largest",
        ),
        0.0,
    )
    count = 0
    for maps in sentences:
        attention = getattr(maps, kind)
        last = len(attention.keys) - 1
        for query in range(len(attention.queries)):
            count += 1
            row = [float(w) for w in attention.weights[layer, head, query]]
            totals["largest"] += max(row)
            allowed = 0
            for key, weight in enumerate(row):
                far = abs(query - key)
                if kind == "decoder":
                    allowed += key <= query
                elif kind == "encoder":
                    allowed += far <= reach
                else:
                    allowed += 1
                for name, counts in (
                    ("previous", key == query - 1),
                    ("same", key == query),
                    ("next", key == query + 1),
                    ("begin", kind == "decoder" and key == 0),
                    ("end", kind != "decoder" and key == last),
                    ("punctuation", attention.keys[key] in MARKS),
                    ("near", far <= NEAR),
                    ("distant", far >= LONG),
                ):
                    totals[name] += weight if counts else 0.0
                totals["distance"] += weight * far
                totals["entropy"] -= weight * math.log2(weight) if weight else 0.0
            totals["most"] += math.log2(allowed)
    evenness = totals["entropy"] / totals["most"]
    means = {name: total / count for name, total in totals.items() if name != "most"}
    return {**means, "evenness": evenness}


@pytest.mark.parametrize("neighborhood", [None, 5])
def test_all_statistics_equal_those_of_the_slow_loop(neighborhood) -> None:
    sentences = [
        random_maps(SOURCE, TARGET, seed=1),
        random_maps(LONG_SOURCE, (*TARGET, *LONG_SOURCE), seed=2),
    ]
    sums = HeadSums(neighborhood)
    for maps in sentences:
        sums.add(maps)
    heads = sums.means()
    assert [(f.kind, f.layer, f.head) for f in heads] == [
        (kind, layer, head)
        for kind in ("encoder", "decoder", "memory")
        for layer in range(1, R + 1)
        for head in range(1, H + 1)
    ]
    reach = neighborhood // 2 if neighborhood else math.inf
    for each in heads:
        indices = each.kind, each.layer - 1, each.head - 1
        expected = slow_statistics(sentences, *indices, reach)
        actual = {name: getattr(each, name) for name in expected}
        assert actual == pytest.approx(expected, abs=1e-9), indices
        assert set(expected) == set(each._fields) - {"kind", "layer", "head"}


def one_hot_head(queries: int, keys: int, choose_key) -> np.ndarray:
    """Returns [1, 1, Q, C] weights: each query attends to only one key."""
    weights = np.zeros((1, 1, queries, keys))
    for query in range(queries):
        weights[0, 0, query, choose_key(query)] = 1.0
    return weights


def test_simple_heads_worked_out_by_hand() -> None:
    source, target = ("▁a", "▁b", ",", "</s>"), ("▁x", "▁y", "</s>")
    sums = HeadSums()
    sums.add(
        sentence_maps(
            source,
            target,
            (
                np.full((1, 1, 4, 4), 0.25),
                one_hot_head(3, 3, lambda query: 0),
                one_hot_head(3, 4, lambda query: 3),
            ),
        )
    )
    encoder, decoder, memory = sums.means()
    assert encoder.entropy == 2.0 and encoder.evenness == 1.0
    # Sums of distances of the 4 queries: 6, 4, 4 and 6, for 16 pairs.
    assert encoder.distance == (6 + 4 + 4 + 6) / 16
    assert (encoder.same, encoder.previous, encoder.next) == (4 / 16, 3 / 16, 3 / 16)
    assert (encoder.end, encoder.punctuation, encoder.begin) == (0.25, 0.25, 0.0)
    assert (decoder.begin, decoder.entropy, decoder.largest) == (1.0, 0.0, 1.0)
    assert (decoder.same, decoder.previous) == (1 / 3, 1 / 3)
    assert decoder.end == 0.0
    assert (memory.end, memory.begin, memory.distance) == (1.0, 0.0, (3 + 2 + 1) / 3)


def test_with_a_single_key_evenness_is_nan() -> None:
    sums = HeadSums()
    sums.add(sentence_maps(["</s>"], ["</s>"], [np.ones((1, 1, 1, 1))] * 3))
    assert all(math.isnan(facts.evenness) for facts in sums.means())
    assert HeadSums().means() == []
