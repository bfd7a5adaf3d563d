"""Links between tokens against `word_numbers`; the feature of batches, cell by cell."""

import dataclasses
import itertools
import random
from fractions import Fraction

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.batches.batching import check_batch, gather_batch
from t2t_keras.input_pipeline.batches.batching_strategy import BucketBatching
from t2t_keras.input_pipeline.batches.mixture import (
    Mixture,
    MixtureBatching,
    join_corpora,
    mixture_lengths,
)
from t2t_keras.input_pipeline.batches.packing import PackedBatching
from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.input_pipeline.batches.plan import WorkerShard
from t2t_keras.input_pipeline.records.token_links import (
    PieceSpaces,
    TokenLinks,
    no_rows,
    read_word_links,
    select_rows,
)
from t2t_keras.input_pipeline.records.tokenized import TokenizedSide
from t2t_keras.text.word_numbers import count_spaces, word_numbers
from tests.input_pipeline.made_up import build_corpus

# Padding, EOS, unknown; then pieces of no, one and several spaces.
PIECES = ("<pad>", "</s>", "<unk>", "▁a", "b", "▁", "▁▁c", "d▁e", "▁f▁g", "h▁", "▁▁")
LEADING, TOTAL = np.array([*map(count_spaces, PIECES)]).T
SPACES = PieceSpaces(LEADING, TOTAL, np.zeros(len(PIECES), bool))
PAIRS = 41


def link_rows(links):
    """Returns rows of links between words, as `read_word_links` does."""
    lines = [" ".join(f"{i}-{j}" for i, j in sorted(each)).encode() for each in links]
    texts = [b" ".join([b"x"] * 99)] * len(links)
    return read_word_links([(texts, texts)], lines, "links")


@pytest.fixture(scope="module")
def links():
    """For each pair, a set of links between words; some are empty."""
    generator = random.Random(3)
    return [
        {
            (generator.randrange(9), generator.randrange(9))
            for _ in range(generator.choice((0, 1, 3, 9)))
        }
        for _ in range(PAIRS)
    ]


@pytest.fixture(scope="module")
def corpus(links):
    generator = random.Random(4)

    def tokens():
        return generator.choices(range(2, len(PIECES)), k=generator.randint(2, 9))

    corpus = build_corpus([(tokens(), tokens()) for _ in range(PAIRS)])
    own = TokenLinks(
        link_rows(links), corpus.source, corpus.target, (SPACES, SPACES), PAIRS
    )
    return dataclasses.replace(corpus, links=own)


@dataclasses.dataclass
class EveryEpoch:
    """Sentences that are the same in each epoch."""

    sentences: TokenizedSide

    def gather(self, indices):
        return self.sentences.gather(indices % PAIRS)


def naive_links(pair, words):
    """Returns the links between the tokens of a pair, without EOS."""
    source, target = (
        word_numbers([PIECES[token] for token in side[:-1]]) for side in pair
    )
    return {
        (s, t)
        for (s, i), (t, j) in itertools.product(enumerate(source), enumerate(target))
        if (i, j) in words
    }


def test_all_tokens_of_two_linked_words_are_linked(corpus, links):
    # In any order, repeated, and under the numbers of later epochs.
    indices = np.array([7, 0, 40, 7, 3 * PAIRS + 12, *range(PAIRS)])
    sides = EveryEpoch(corpus.source), EveryEpoch(corpus.target)
    flat, lengths = corpus.links.of(*sides).gather(indices)
    assert flat.dtype == np.int32
    ends = np.cumsum(lengths)
    total = 0
    for index, end, length in zip(indices % PAIRS, ends, lengths, strict=True):
        found = flat[end - length : end].reshape(-1, 2).tolist()
        expected = naive_links(corpus.pair(index), links[index])
        assert sorted(map(tuple, found)) == sorted(expected)
        total += len(expected)
    assert total > 30
    flat, lengths = corpus.links.gather(np.zeros(0, np.int64))
    assert (flat.shape, lengths.shape) == ((0,), (0,))


def test_every_piece_counts_its_spaces():
    for length in (1, 2, 3):
        for tokens in itertools.product(range(2, len(PIECES)), repeat=length):
            corpus = build_corpus([(tokens, (2,))])
            expected = word_numbers([PIECES[token] for token in tokens])
            words = link_rows([{(i, 0) for i in range(8)}])
            own = TokenLinks(words, corpus.source, corpus.target, (SPACES, SPACES), 1)
            found = {}
            for word in range(8):
                one = dataclasses.replace(own, words=link_rows([{(word, 0)}]))
                flat, _ = one.gather(np.array([0]))
                found |= dict.fromkeys(flat.reshape(-1, 2)[:, 0].tolist(), word)
            assert [found[i] for i in range(length)] == expected


def check_cells(batches, corpus, links):
    """Asserts the feature of each batch; returns how many pairs were seen."""
    by_tokens = {
        tuple(tuple(map(int, side)) for side in corpus.pair(i)): words
        for i, words in enumerate(links)
    }
    assert len(by_tokens) == len(links)
    count = 0
    for batch in batches:
        source, target = batch["encoder_input_tokens"], batch["decoder_target_tokens"]
        sources = batch.get("encoder_segment_ids", (source > 0).astype(int))
        targets = batch.get("decoder_segment_ids", (target > 0).astype(int))
        expected = np.zeros((len(source), target.shape[1], source.shape[1]), np.uint8)
        for row in range(len(source)):
            for segment in range(1, int(sources[row].max()) + 1):
                s = np.flatnonzero(sources[row] == segment)
                t = np.flatnonzero(targets[row] == segment)
                pair = tuple(source[row][s].tolist()), tuple(target[row][t].tolist())
                count += 1
                for i, j in naive_links(pair, by_tokens[pair]):
                    expected[row, t[j], s[i]] = 1
        np.testing.assert_array_equal(batch["alignment"], expected)
    return count


@pytest.mark.parametrize("packs", [False, True])
def test_batches_have_the_links_of_their_rows(corpus, links, packs):
    if packs:
        strategy = PackedBatching.from_lengths(corpus.lengths, tokens_per_batch=60)
    else:
        strategy = BucketBatching.from_lengths(
            corpus.lengths, max_shapes=3, tokens_per_batch=60
        )
    dataset = TrainingBatches(corpus, strategy, seed=2).dataset()
    check_batch(dataset.element_spec)
    plan = list(strategy.plan(2, 0))
    batches = list(dataset.take(len(plan)).as_numpy_iterator())
    assert check_cells(batches, corpus, links) == PAIRS
    for planned, batch in zip(plan, batches, strict=True):
        eager = strategy.make(gather_batch(corpus, planned))
        np.testing.assert_array_equal(eager["alignment"], batch["alignment"])
    padding = TrainingBatches(corpus, strategy, seed=2).padding_batch(
        strategy.shapes[0]
    )
    assert not padding["alignment"].any()
    assert padding["alignment"].dtype == np.uint8


@pytest.mark.slow
@pytest.mark.parametrize("packs", [False, True])
def test_a_worker_has_the_links_of_its_rows(corpus, packs):
    make = PackedBatching if packs else BucketBatching
    shapes = {} if packs else {"max_shapes": 2}
    strategy = make.from_lengths(corpus.lengths, tokens_per_batch=60, **shapes)
    together = TrainingBatches(corpus, strategy, seed=2)
    whole = [together.whole_batch(number)["alignment"] for number in range(6)]
    for worker in range(3):
        shard = WorkerShard(worker, num_workers=3, num_replicas=3)
        own = TrainingBatches(corpus, strategy, seed=2, shard=shard)
        for expected, (batch, _) in zip(whole, own, strict=False):
            rows = len(batch["alignment"])
            expected = expected[worker * rows : (worker + 1) * rows]
            # The last worker may have rows of padding, or none of the batch's rows.
            np.testing.assert_array_equal(batch["alignment"][: len(expected)], expected)
            assert not batch["alignment"][len(expected) :].any()


def test_parts_of_a_mixture_without_links_have_none(corpus, links):
    other = build_corpus([((3, 4), (4, 3, 3)), ((7,), (8, 8))])
    joined = join_corpora([corpus, other])
    mixture = Mixture((PAIRS, 2), (Fraction(2),))
    lengths = mixture_lengths(joined.lengths, mixture)
    strategy = MixtureBatching(
        joined.lengths,
        mixture,
        PackedBatching.from_lengths(lengths, tokens_per_batch=70),
    )
    plan = list(strategy.plan(5, 0))
    dataset = TrainingBatches(joined, strategy, seed=5).dataset()
    batches = dataset.take(len(plan)).as_numpy_iterator()
    count = check_cells(batches, joined, [*links, set(), set()])
    assert count == PAIRS + 4
    assert join_corpora([other, other]).links is None


def test_a_batch_with_a_wrong_feature_is_refused(corpus):
    strategy = BucketBatching.from_lengths(
        corpus.lengths, max_shapes=1, tokens_per_batch=60
    )
    batch = TrainingBatches(corpus, strategy, seed=2).whole_batch(0)
    check_batch(batch)
    alignment = batch["alignment"]
    for wrong, message in (
        (alignment.astype("int32"), "alignment must be uint8"),
        (alignment[0], "must be of rank 3"),
        (alignment[:, :, 1:], "must have the shape of decoder_target_tokens and"),
        (alignment.transpose(0, 2, 1)[:, :, 1:], "must have the shape"),
    ):
        with pytest.raises(ValueError, match=message):
            check_batch({**batch, "alignment": wrong})


TEXT = (b"a b", b"", b"c  d\te"), (b"x", b"y z", b"z y x")


def test_word_links_are_those_of_the_pairs_with_text():
    rows = read_word_links([TEXT], [b"1-0 0p0", b"", b"2-1 0-2 0-0"], "f")
    assert rows.tokens.tolist() == [1, 0, 0, 0, 0, 2, 2, 1]
    assert rows.offsets.tolist() == [0, 2, 8]
    chosen = select_rows(rows, np.array([False, True]))
    assert chosen.tokens.tolist() == [0, 0, 0, 2, 2, 1]
    assert select_rows(rows, None) is rows
    assert no_rows(3).lengths.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([b"", b""], "Line 3 is in the text only"),
        ([b"", b"", b"", b""], r"Line 4 is in f only"),
        ([b"2-0", b"", b""], "Line 1 of f has the link 2-0"),
        ([b"", b"0-1", b""], "Line 2 of f has the link 0-1"),
        ([b"", b"", b"0:1"], "Line 3 of f must have links"),
        ([b"0p0", b"", b""], "f has no link between words"),
    ],
)
def test_links_of_another_text_are_refused(lines, message):
    with pytest.raises(UserError, match=message):
        read_word_links([TEXT], lines, "f")
