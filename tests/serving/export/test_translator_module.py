"""Signatures of an export: outputs, options, limits, and refused inputs."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.parsing.task import ParserTextAdapter
from t2t_keras.serving.export.limits import ServingLimits
from t2t_keras.serving.export.requests import Request
from t2t_keras.serving.export.saved_model import save_version
from t2t_keras.serving.export.translator_module import TranslatorModule
from t2t_keras.serving.export.validation import check_graph, open_session
from t2t_keras.translation.translator import Translator
from tests.serving.toy_model import HEADS, LAYERS, LIMITS, SETTINGS, toy_model

TEXTS = (
    b"ab ba",
    b"",
    b" \t",
    b"\xe2\x80\xa8",
    b"ab \xff c",
    b"ba " * 30,
    b"c",
    "\u202eab \U0001f642\u0301".encode(),
    b"a\x00b",
    b"ba" * 500_000,
)
INF = float("inf")


def strings(*texts):
    return np.array(texts, dtype=object)


def ask(served, name, **inputs):
    return served.ask(Request(name, inputs))


@pytest.fixture(scope="module")
def translator(weight, vocabulary):
    """A `Translator` with the same model."""
    search = toy_model(weight).search
    return Translator(
        lambda ids: search(ids, BeamSearchSettings(4, 0.5, n_best=1)),
        vocabulary,
        max_source_length=LIMITS.source_length,
    )


@pytest.mark.parametrize("count", [0, 1, 33])
def test_it_translates_like_the_translator(served, translator, count):
    texts = (TEXTS * 4)[:count]
    outputs = ask(served, "serving_default", text=strings(*texts))
    assert set(outputs) == {"translation", "score", "truncated"}
    assert {value.shape for value in outputs.values()} == {(count,)}
    expected = translator.translate(texts)
    assert [t.decode() for t in outputs["translation"]] == [e.text for e in expected]
    scores = [line.hypotheses[0].score for line in expected]
    np.testing.assert_allclose(outputs["score"], scores)
    assert outputs["truncated"].tolist() == [line.truncated for line in expected]
    assert count < 10 or outputs["truncated"].tolist()[:10].count(True) == 3


def test_a_blank_text_has_an_empty_translation(weight, vocabulary):
    """Even if the search returns a translation."""

    def always_translate(source, settings, *, options=None, growing=True):
        tokens = tf.fill([tf.shape(source)[0], settings.results, 2], 260)
        ones = tf.ones([tf.shape(source)[0], settings.results])
        return BeamSearchResult(tokens, tf.cast(ones, tf.int32), ones, ones)

    model = dataclasses.replace(toy_model(weight), search=always_translate)
    module = TranslatorModule(model, vocabulary, SETTINGS, LIMITS)
    text = tf.constant([b"", b"\t ", b"a"])
    for outputs in (module.translate(text), module.translate_with_options(text)):
        texts = outputs["translation"].numpy().tolist()
        assert (texts[:2], texts[2] != b"") == ([b"", b""], True)
        assert outputs["score"].numpy().tolist() == [0.0, 0.0, 1.0]
    several = module.nbest(text)
    assert several["translations"].numpy()[:2].tolist() == [[b""] * 3] * 2
    assert several["scores"].numpy().tolist() == [[0.0, -INF, -INF]] * 2 + [[1.0] * 3]
    assert several["lengths"].numpy().tolist() == [[0, 0, 0]] * 2 + [[1, 1, 1]]


def test_characters_are_limited_before_tokens(weight, vocabulary):
    limits = ServingLimits(12, 15, characters=4, n_best=1)
    module = TranslatorModule(toy_model(weight), vocabulary, SETTINGS, limits)
    outputs = module.translate(tf.constant([b"ab c", b" a\t\tb  ", b"ab ba", b"a bcd"]))
    assert outputs["translation"].numpy().tolist() == [
        b"ab c",
        b"a b",
        b"ab b",
        b"a bc",
    ]
    assert outputs["truncated"].numpy().tolist() == [False, False, True, True]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_the_n_best_translations(served, vocabulary, count):
    texts = (b"ab ba", b"", b"c", b"ba " * 30, b"abc")[:count]
    outputs = ask(served, "nbest", text=strings(*texts))
    assert set(outputs) == {"translations", "scores", "lengths", "truncated"}
    assert outputs["translations"].shape == (count, 3)
    for row, text in enumerate(texts):
        if not text:
            continue
        ids = vocabulary.encode(text)
        ids = ids if len(ids) <= 12 else [*ids[:11], 1]
        expected = [vocabulary.decode(ids[n:]) for n in range(3)]
        assert [t.decode() for t in outputs["translations"][row]] == expected
        assert outputs["scores"][row].tolist() == [sum(ids) - n for n in range(3)]
        assert outputs["lengths"][row].tolist() == [
            max(len(ids) - n, 0) for n in range(3)
        ]
    assert outputs["truncated"].tolist() == [False, False, False, True, False][:count]


def test_options_have_defaults(served):
    defaults = served.signatures["translate_with_options"].defaults
    outputs = {name: tf.make_ndarray(value) for name, value in defaults.items()}
    assert {name: value.shape for name, value in outputs.items()} == {
        "beam_size": (),
        "alpha": (),
        "max_length": (),
    }
    assert outputs["beam_size"] == SETTINGS.beam_size
    assert outputs["alpha"] == SETTINGS.alpha
    assert outputs["max_length"] == LIMITS.target_length
    assert [v.dtype.name for v in outputs.values()].count("int32") == 2
    assert not any(
        definition.defaults
        for name, definition in served.signatures.items()
        if name != "translate_with_options"
    )
    answer = ask(served, "translate_with_options", text=strings(b"c", b"ab"))
    plain = ask(served, "serving_default", text=strings(b"c", b"ab"))
    assert answer["translation"].tolist() == plain["translation"].tolist()
    np.testing.assert_allclose(answer["score"], plain["score"] + 4000.5)


def test_options_are_for_all_or_for_each_and_limited(served, vocabulary):
    texts = (b"ab ba c", b"c", b"ab", b"ba")
    sums = [sum(vocabulary.encode(text)) for text in texts]
    nan = float("nan")
    outputs = ask(
        served,
        "translate_with_options",
        text=strings(*texts),
        beam_size=np.array([1, 99, -3, 6], np.int32),
        alpha=np.array([0.25, nan, -2.0, INF], np.float32),
        max_length=np.array([2, 0, 2**31 - 1, -1], np.int32),
    )
    # 1000 * beam_size + alpha, both within the limits.
    extra = [1000.25, 6000.5, 1000.0, 6010.0]
    np.testing.assert_allclose(outputs["score"], np.add(sums, extra))
    whole = [vocabulary.encode(text) for text in texts]
    expected = [whole[0][:2], whole[1][:1], whole[2], whole[3][:1]]
    assert outputs["translation"].tolist() == [
        vocabulary.decode(ids).encode() for ids in expected
    ]
    same = ask(
        served,
        "translate_with_options",
        text=strings(*texts),
        beam_size=np.int32(2),
        alpha=np.array([0.0], np.float32),
    )
    np.testing.assert_allclose(same["score"], np.add(sums, 2000.0))
    empty = ask(served, "translate_with_options", text=strings(), alpha=np.float32(1))
    assert {value.shape for value in empty.values()} == {(0,)}


def test_a_target_is_scored_token_by_token(served, vocabulary):
    sources = (b"ab ba", b"", b"ba " * 30, b"c")
    targets = (b"c", b"ab", b"ab c", b"ab " * 30)
    outputs = ask(served, "score", source=strings(*sources), target=strings(*targets))
    rows = []
    for source, target in zip(sources, targets, strict=True):
        length = min(len(vocabulary.encode(source)), LIMITS.source_length)
        ids = vocabulary.encode(target)
        ids = ids if len(ids) <= 15 else [*ids[:14], 1]
        rows.append((ids, [-token - length for token in ids]))
    longest = max(len(ids) for ids, _ in rows)
    for row, (ids, log_probs) in enumerate(rows):
        rest = longest - len(ids)
        assert outputs["token_log_probs"][row].tolist() == log_probs + [0.0] * rest
        names = [name.encode() for name in vocabulary.pieces(ids)]
        assert outputs["target_tokens"][row].tolist() == names + [b""] * rest
        assert outputs["target_length"][row] == len(ids)
        assert outputs["log_prob"][row] == sum(log_probs)
        penalty = ((5 + len(ids)) / 6) ** SETTINGS.alpha
        assert outputs["score"][row] == pytest.approx(
            sum(log_probs) / penalty, rel=1e-6
        )
    assert outputs["truncated"].tolist() == [False, False, True, True]
    assert len(outputs) == 6


def test_attention_of_a_pair(served, vocabulary):
    sources, targets = (b"ab ba", b"ba " * 30), (b"c ab abc", b"")
    outputs = ask(
        served, "attention", source=strings(*sources), target=strings(*targets)
    )
    limit = LIMITS.attention_length
    ids = []
    for text in (*sources, *targets):
        row = vocabulary.encode(text)
        ids.append(row if len(row) <= limit else [*row[: limit - 1], 1])
    s = max(len(row) for row in ids[:2])
    t = max(len(row) for row in ids[2:])
    shapes = {name: value.shape for name, value in outputs.items()}
    assert shapes == {
        "encoder_attention": (2, LAYERS, HEADS, s, s),
        "decoder_attention": (2, LAYERS, HEADS, t, t),
        "memory_attention": (2, LAYERS, HEADS, t, s),
        "source_tokens": (2, s),
        "target_tokens": (2, t),
        "source_length": (2,),
        "target_length": (2,),
        "truncated": (2,),
    }
    assert outputs["truncated"].tolist() == [False, True]
    assert outputs["source_length"].tolist() == [len(row) for row in ids[:2]]
    assert outputs["target_length"].tolist() == [len(row) for row in ids[2:]]
    # The decoder's input is the shifted target: its second query is the first token.
    memory = outputs["memory_attention"][0, 1, 2]
    assert memory[0, : len(ids[0])].tolist() == ids[0]
    assert memory[1, 0] == ids[2][0] * 1000 + ids[0][0]


@pytest.mark.parametrize("name", ["score", "attention"])
def test_no_pairs(served, name):
    outputs = ask(served, name, source=strings(), target=strings())
    assert {len(value) for value in outputs.values()} == {0}


TWO_ROWS = np.array([[b"a", b"b"]], dtype=object)


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("serving_default", {"text": TWO_ROWS}, "text_must_have_rank_1"),
        ("serving_default", {"text": np.array(b"a", object)}, "text_must_have_rank_1"),
        ("nbest", {"text": TWO_ROWS}, "text_must_have_rank_1"),
        (
            "translate_with_options",
            {"text": strings(b"a", b"b"), "alpha": np.ones(3, np.float32)},
            "alpha_must_be_one_or_one_for_each_text",
        ),
        (
            "translate_with_options",
            {"text": strings(b"a"), "beam_size": np.ones([1, 1], np.int32)},
            "beam_size_must_be_one_or_one_for_each_text",
        ),
        (
            "score",
            {"source": strings(b"a"), "target": strings(b"a", b"b")},
            "numbers of targets and sources must be equal",
        ),
        (
            "attention",
            {"source": strings(b"a"), "target": TWO_ROWS},
            "target_must_have_rank_1",
        ),
        (
            "translate_ids",
            {"input_ids": np.ones([3], np.int32)},
            "ids_must_have_rank_2",
        ),
    ],
)
def test_bad_shapes_are_refused(served, name, inputs, message):
    """By the graph, as in a server, not by Python."""
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        served.ask(Request(name, inputs))


# The toy parser's symbols are the words of the sentence. Some sentences are cut, by
# tokens or by characters.
SENTENCES = (
    "ab (S ba",
    "",
    "(b )b c",
    "(a (b c )d e",
    ")a )b",
    "(",
    "a" * 40,
    "(S " + "a " * 9,
    "\u202eab (\U0001f642\u0301 x",
    "a\x00 )b",
    " \t",
    "c\u2581)d (S ab ba ab ba ab",
)


@pytest.mark.slow
@pytest.mark.parametrize("splits", [True, False])
def test_an_exported_parser_returns_trees(weight, vocabulary, tmp_path, splits):
    adapter = ParserTextAdapter(splits=splits)
    limits = dataclasses.replace(LIMITS, characters=24)
    module = TranslatorModule(toy_model(weight), vocabulary, SETTINGS, limits, adapter)
    version = save_version(module, tmp_path / "base")
    check_graph(version, tokenizes=True, xla=False)
    search = toy_model(weight).search
    translator = Translator(
        lambda ids: search(ids, BeamSearchSettings(4, 0.5, n_best=3)),
        vocabulary,
        max_source_length=limits.source_length,
        max_characters=limits.characters,
        text_adapter=adapter,
    )
    expected = translator.translate(SENTENCES)
    with open_session(version) as served:
        text = strings(*(line.encode() for line in SENTENCES))
        outputs = ask(served, "serving_default", text=text)
        assert [t.decode() for t in outputs["translation"]] == [
            e.text for e in expected
        ]
        assert outputs["truncated"].tolist() == [line.truncated for line in expected]
        with_options = ask(served, "translate_with_options", text=text)
        assert with_options["translation"].tolist() == outputs["translation"].tolist()
        for row, line in zip(
            ask(served, "nbest", text=text)["translations"], expected, strict=True
        ):
            texts = [one.text for one in line.hypotheses]
            assert [tree.decode() for tree in row[: len(texts)]] == texts
    assert len({line.text for line in expected}) >= 9
    # With word splitting, brackets become words, so none is left to open a constituent.
    assert any(line.text.startswith(("(S", "(a", "(b")) for line in expected) != splits


def test_a_parsers_source_is_split_in_every_signature(weight, vocabulary):
    adapter = ParserTextAdapter(splits=True)
    parser, plain = (
        TranslatorModule(toy_model(weight), vocabulary, SETTINGS, LIMITS, each)
        for each in (adapter, None)
    )
    raw, split = tf.constant([b"a(b."]), tf.constant([b"a -LRB- b ."])
    target = tf.constant([b"(S a"])
    for name in ("score", "attention"):
        ours = getattr(parser, name)(raw, target)
        theirs = getattr(plain, name)(split, target)
        for key, value in ours.items():
            np.testing.assert_array_equal(value, theirs[key], err_msg=key)
