"""Translation of lines with a fake search: order, batches, limits."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.errors import UserError
from t2t_keras.parsing.linearization import repair_tree, tree_words
from t2t_keras.parsing.task import ParserTextAdapter
from t2t_keras.parsing.trees import read_trees
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.translation.translator import EMPTY, Translation, Translator

EOS = 1
LINES = ("ab ba", "abba baab ab", "b", "a b a b a b a b a b", "ba")


@pytest.fixture(scope="module")
def vocabulary():
    text = [*LINES * 3, "cd dc abcd"]
    return SubwordVocabulary(learn_subwords(text, vocabulary_size=268))


class EchoSearch:
    """Fake search: returns the source, and as second best its tokens in reverse.

    Scores depend on the tokens, so that a mix-up of rows fails a test.
    """

    def __init__(self, empty_slots=0):
        self.batches = []
        self.options = []
        self._empty_slots = empty_slots

    def __call__(self, source, **options):
        self.options.append(options)
        ids_BS = source.numpy()
        assert source.dtype == tf.int32
        self.batches.append(ids_BS)
        batch, width = ids_BS.shape
        count = 2 + self._empty_slots
        tokens = np.zeros([batch, count, width + 3], np.int32)
        lengths = np.zeros([batch, count], np.int32)
        log_probs = np.full([batch, count], -np.inf, np.float32)
        for b, row in enumerate(ids_BS):
            words = [token for token in row.tolist() if token not in (0, EOS)]
            for n, order in enumerate((words, words[::-1])):
                tokens[b, n, : len(order) + 1] = [*order, EOS]
                lengths[b, n] = len(order) + 1
                log_probs[b, n] = -self.cost(words, n)
        return BeamSearchResult(
            *(tf.constant(part) for part in (tokens, lengths, log_probs, log_probs / 2))
        )

    @staticmethod
    def cost(words, rank):
        return sum((i + 1) * word for i, word in enumerate(words)) / 64 + rank


@pytest.fixture
def search():
    return EchoSearch()


@pytest.fixture
def build(search, vocabulary):
    def make(**options):
        options = {"max_source_length": 40, **options}
        return Translator(search, vocabulary, **options)

    return make


def test_every_line_comes_back_in_its_place(build, vocabulary):
    found = build(tokens_per_batch=16).translate(LINES)
    assert [line.text for line in found] == list(LINES)
    for text, line in zip(LINES, found, strict=True):
        words = vocabulary.encode(text)[:-1]
        first, second = line.hypotheses
        assert first.log_prob == pytest.approx(-EchoSearch.cost(words, 0))
        assert first.score == pytest.approx(first.log_prob / 2)
        assert second.log_prob == pytest.approx(first.log_prob - 1)
        assert second.text == vocabulary.decode(words[::-1])
        assert first.num_tokens == second.num_tokens == len(words) + 1
        assert not line.truncated


WORD = st.sampled_from(["ab", "ba", "c", "dddd", "ü", "", " ", "\u2028", "\t"])


@given(
    lines=st.lists(st.lists(WORD, max_size=9).map(" ".join), max_size=12),
    tokens_per_batch=st.integers(1, 60),
)
def test_company_does_not_matter_and_no_batch_is_too_large(
    vocabulary, lines, tokens_per_batch
):
    search = EchoSearch()
    translator = Translator(
        search, vocabulary, max_source_length=9, tokens_per_batch=tokens_per_batch
    )
    together = translator.translate(lines)
    sizes = [batch.shape for batch in search.batches]
    assert together == [translator.translate([line])[0] for line in lines]
    for rows, width in sizes:
        assert rows * width <= tokens_per_batch or rows == 1
    # The longest lines come first, so that a lack of memory shows immediately.
    assert [width for _, width in sizes] == sorted([w for _, w in sizes], reverse=True)
    asked = sum(bool(line.split()) for line in lines)
    assert sum(rows for rows, _ in sizes) == asked


def test_seeds_and_prefixes_go_with_their_lines(build, search, vocabulary):
    translator = build(tokens_per_batch=16)
    lines = ["", *LINES]
    # Prefixes that the fake search happens to return.
    prefixes = ["no", LINES[0], "", LINES[2], "", LINES[4]]
    translator.translate(lines, prefixes=prefixes, seed=3, first_line=10)
    assert len(search.batches) > 1
    found = {}
    for batch, options in zip(search.batches, search.options, strict=True):
        rows = zip(batch, options["prefixes"].numpy(), options["seeds"], strict=True)
        for ids, prefix, seed in rows:
            text = vocabulary.decode(ids)
            found[text] = (vocabulary.decode(prefix), seed)
    # The first line is empty and not searched for, but counts.
    assert found == {
        line: (prefix, 3 * 2**32 + number)
        for number, (line, prefix) in enumerate(zip(lines, prefixes, strict=True), 10)
        if line
    }
    translator.translate(lines)
    assert search.options[-1] == {}


def test_a_prefix_longer_than_the_translation_is_refused(build):
    with pytest.raises(UserError) as caught:
        build().translate(["ab", "a b"], prefixes=["", "a b a"], first_line=7)
    assert str(caught.value) == (
        "The prefix of line 8 has 3 tokens, but a translation of this line has at most "
        "2. Shorten it, or raise --extra_length."
    )


def test_sources_end_with_eos_and_are_padded_with_0(build, search, vocabulary):
    build().translate(LINES)
    (batch,) = search.batches
    expected = sorted(map(vocabulary.encode, LINES), key=lambda ids: -len(ids))
    for row, ids in zip(batch.tolist(), expected, strict=True):
        assert row == ids + [0] * (batch.shape[1] - len(ids))
        assert ids.count(EOS) == 1


BLANK_LINES = ("", "   ", "\t", "\u2028\u00a0", b"", b"\r", "\u2581")


def test_nothing_is_asked_about_a_blank_line(build, search):
    assert EMPTY == Translation("", 0.0, 0.0, 0)
    for blank in BLANK_LINES:
        search.batches.clear()
        found = build().translate([blank, "ab", blank])
        hypotheses = [line.hypotheses for line in (found[0], found[2])]
        assert hypotheses == [(EMPTY,)] * 2, repr(blank)
        assert [batch.shape[0] for batch in search.batches] == [1], repr(blank)
        assert found[1].text == "ab", repr(blank)


def test_no_line_at_all(build, search):
    assert build().translate([]) == []
    assert search.batches == []


def test_a_long_line_is_truncated_reported_and_ends_in_eos(build, search, vocabulary):
    line = "ab ba dc " * 9
    ids = vocabulary.encode(line)
    for limit, is_cut in ((len(ids), False), (len(ids) - 1, True), (2, True)):
        search.batches.clear()
        first, cut, last = build(max_source_length=limit).translate(["b", line, "a"])
        assert [*ids[: limit - 1], EOS] in search.batches[0].tolist()
        assert cut.truncated is is_cut
        assert cut.text == vocabulary.decode(ids[: limit - 1])
        assert (first.truncated, last.truncated) == (False, False)


def test_bytes_and_ill_formed_text(build):
    lines = [b"ab\xff\xfeba", "ab\ud800", "grün".encode(), b"a\x00b"]
    texts = [line.text for line in build().translate(lines)]
    assert texts == ["ab\ufffd\ufffdba", "ab\ufffd\ufffd\ufffd", "grün", "a\x00b"]


LINE_BREAKS = ("\n", "\r\n", "\u2028", "\u2029", "\x85", "\x0b")


def test_one_line_stays_one_line(build):
    for break_ in LINE_BREAKS:
        (line,) = build().translate([f"ab{break_}ba"])
        assert line.text == "ab ba", repr(break_)


def test_no_line_break_comes_out_where_the_model_says_one(vocabulary):
    """Byte 0x0A has an id, which an untrained model may choose."""
    line_feed = vocabulary.tokenizer.string_to_id("<0x0A>").numpy()

    def search(source):
        tokens = tf.constant([[[*vocabulary.encode("ab")[:-1], line_feed, EOS, 0]]])
        one = tf.ones([1, 1])
        return BeamSearchResult(tokens, tf.constant([[4]]), one, one)

    translator = Translator(search, vocabulary, max_source_length=9)
    assert translator.translate(["b"])[0].text == "ab"


def test_slots_without_a_hypothesis_are_left_out(vocabulary):
    translator = Translator(EchoSearch(3), vocabulary, max_source_length=9)
    (line,) = translator.translate(["ab ba"])
    assert len(line.hypotheses) == 2
    assert all(np.isfinite(each.score) for each in line.hypotheses)


def test_a_search_that_finds_nothing_still_gives_a_line(vocabulary):
    def lose(source):
        found = EchoSearch(2)(source)
        return found._replace(lengths=tf.zeros_like(found.lengths))

    (line,) = Translator(lose, vocabulary, max_source_length=9).translate(["ab ba"])
    assert line.text == "" and len(line.hypotheses) == 1


def test_room_for_the_translation_counts_too(build, search):
    build(tokens_per_batch=60, extra_length=20).translate(["a"] * 30)
    # 2 source tokens allow 22 target tokens: two rows of 22 fit into 60, three do not.
    assert {len(batch) for batch in search.batches} == {2}


def test_progress_adds_up_to_the_lines(build):
    done = []
    build(tokens_per_batch=8).translate(["", *LINES, " "], done.append)
    assert sum(done) == len(LINES) + 2
    assert len(done) > 3


def test_batches_searched_at_once_come_back_in_their_places(vocabulary):
    plain = EchoSearch()
    meeting = threading.Barrier(2, timeout=60)

    def search(source):
        # Waits for the other batch.
        meeting.wait()
        if source.shape[1] > 8:
            time.sleep(0.1)  # the longest come first, and are done last
        return plain(source)

    # Each line alone.
    sizes = {"max_source_length": 40, "tokens_per_batch": 1}
    together = Translator(search, vocabulary, max_searches=2, **sizes)
    alone = Translator(plain, vocabulary, **sizes).translate(LINES[:4])
    assert len(plain.batches) == 4
    assert together.translate(LINES[:4]) == alone


def test_a_search_that_fails_ends_the_translation(vocabulary):
    def search(source):
        raise RuntimeError(f"no memory for {source.shape[0]} rows")

    sizes = {"max_source_length": 40, "tokens_per_batch": 4, "max_searches": 3}
    with pytest.raises(RuntimeError, match="no memory for 1 rows"):
        Translator(search, vocabulary, **sizes).translate(LINES)


def test_a_parser_gives_each_of_the_best_as_a_tree_over_the_words(vocabulary):
    """The fake model echoes the words, which are used as part-of-speech tags."""
    lines = ["ab (S ba", "", "(b )b ba", b" c  )d (S ab abba ab ba ab ba "]
    translator = Translator(
        EchoSearch(),
        vocabulary,
        max_source_length=14,
        extra_length=3,
        text_adapter=ParserTextAdapter(splits=False),
    )
    found = translator.translate(lines)
    for line, each in zip(lines, found, strict=True):
        words = (line.decode() if isinstance(line, bytes) else line).split()
        assert len(each.hypotheses) == (2 if words else 1)
        trees = [next(read_trees([one.text]), None) for one in each.hypotheses]
        escaped = [word.replace("(", "-LRB-").replace(")", "-RRB-") for word in words]
        assert [tree_words(tree) if tree else [] for tree in trees] == (
            [escaped] * len(each.hypotheses)
        )
    assert found[0].text == str(repair_tree("ab (S ba", ["ab", "(S", "ba"]))
    assert found[1].text == ""
    # The tree has all words of a truncated line, although the model does not see them.
    assert [each.truncated for each in found] == [False, False, False, True]
