"""Streaming from text: every pair once, in few shapes, with the vocabulary's ids."""

import collections
import gzip
import itertools
from types import MappingProxyType

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.batches.batching import check_batch
from t2t_keras.input_pipeline.streaming import text_dataset
from tests.input_pipeline.made_up import made_up_pairs
from tests.input_pipeline.read_back import count_pairs, read_shape

TOKENS, MAX_LENGTH = 120, 20
SETTINGS = MappingProxyType(
    {"tokens_per_batch": TOKENS, "max_length": MAX_LENGTH, "max_shapes": 3}
)


@pytest.fixture(scope="module")
def pairs():
    """Pairs, including one with an empty side and an over-long one."""
    pairs = made_up_pairs(1200, seed=8)
    pairs[5] = ("a house", "  ")
    pairs[1100] = ("tree " * 40, "Baum")
    return pairs


@pytest.fixture(scope="module")
def files(pairs, tmp_path_factory):
    """The same pairs as two files, one of them gzip, and as a TSV file."""
    folder = tmp_path_factory.mktemp("text")
    for name, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (folder / name).write_text("".join(line + "\n" for line in lines))
    packed = gzip.compress((folder / "target").read_bytes())
    (folder / "target.gz").write_bytes(packed)
    rows = [f"{source}\t{target}\n" for source, target in pairs]
    (folder / "both.tsv").write_text("".join(rows))
    return folder


@pytest.fixture(scope="module")
def dataset(files, vocabulary):
    """The pairs of the TSV file, in another order each time."""
    return text_dataset([files / "both.tsv"], vocabulary, **SETTINGS)


@pytest.fixture(scope="module")
def in_order(files, vocabulary):
    """The same in the file's order."""
    options = {**SETTINGS, "shuffle_buffer": 0}
    return text_dataset([files / "both.tsv"], vocabulary, **options)


def expected_pairs(pairs, vocabulary):
    """Multiset of the token ids of all pairs, encoded one by one in Python."""
    rows = [[tuple(vocabulary.encode(text)) for text in pair] for pair in pairs]
    fits = [row for row in rows if all(1 < len(side) <= MAX_LENGTH for side in row)]
    assert 2 <= len(rows) - len(fits) < len(rows) / 2
    return collections.Counter(map(tuple, fits))


def arrays(dataset, count=None):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def test_every_pair_comes_once_in_few_shapes(files, pairs, vocabulary, dataset):
    both = [(str(files / "source"), files / "target.gz")]
    for each in (dataset, text_dataset(both, vocabulary, **SETTINGS)):
        check_batch(each.element_spec)
        batches = arrays(each)
        assert count_pairs(batches) == expected_pairs(pairs, vocabulary)
        shapes = {read_shape(batch) for batch in batches}
        assert 2 <= len(shapes) <= 3
        for rows, source_length, target_length in shapes:
            assert source_length == target_length <= MAX_LENGTH
            assert rows * source_length <= TOKENS < (rows + 1) * source_length


@pytest.mark.slow
def test_lone_paths_and_relative_paths(
    files, vocabulary, in_order, tmp_path, monkeypatch
):
    settings = {**SETTINGS, "shuffle_buffer": 0}
    expected = arrays(in_order, 3)
    vocabulary.save(tmp_path / "v.model")
    monkeypatch.chdir(files)
    lone = text_dataset("both.tsv", tmp_path / "v.model", **settings)
    pair = ["source", "target.gz"]
    listed = text_dataset([pair], str(tmp_path / "v.model"), **settings)
    monkeypatch.chdir(tmp_path)
    for dataset in (lone, listed):
        for batch, other in zip(arrays(dataset, 3), expected, strict=True):
            for name in batch:
                np.testing.assert_array_equal(batch[name], other[name])


def test_rows_of_a_multiple(files, pairs, vocabulary, dataset):
    shapes = []
    paths = [files / "both.tsv"]
    thirds = text_dataset(paths, vocabulary, row_multiple=3, **SETTINGS)
    for each in (dataset, thirds):
        batches = arrays(each)
        assert count_pairs(batches) == expected_pairs(pairs, vocabulary)
        shapes.append({read_shape(batch)[:2] for batch in batches})
    assert any(rows % 3 for rows, _ in shapes[0])
    assert shapes[1] == {(rows // 3 * 3, length) for rows, length in shapes[0]}


def test_targets_are_shifted_and_weighted(dataset):
    for batch in arrays(dataset, 20):
        target = batch["decoder_target_tokens"]
        fed = [[0, *row[:-1]] for row in target.tolist()]
        assert batch["decoder_input_tokens"].tolist() == fed
        np.testing.assert_array_equal(batch["decoder_loss_weights"], target > 0)


@pytest.mark.slow
def test_the_order_is_of_the_seed(files, vocabulary):
    def order(seed, **options):
        options = SETTINGS | options
        dataset = text_dataset([files / "both.tsv"], vocabulary, seed=seed, **options)
        return [batch["encoder_input_tokens"].tolist() for batch in arrays(dataset, 30)]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert order(1, shuffle_buffer=0) == order(2, shuffle_buffer=0)


def test_a_repeated_dataset_begins_again(pairs, vocabulary, dataset):
    first, second = arrays(dataset), arrays(dataset)
    assert count_pairs(first) == expected_pairs(pairs, vocabulary)
    assert count_pairs(second) == count_pairs(first)
    # The order differs, because each pass shuffles again.
    orders = [
        [b["encoder_input_tokens"].tolist() for b in run] for run in (first, second)
    ]
    assert orders[0] != orders[1]
    assert count_pairs(arrays(dataset.repeat(2))) == count_pairs([*first, *second])


class CountingModel(keras.Model):
    """A model that counts rows and learns nothing."""

    def train_step(self, data):
        return {"rows": tf.cast(tf.shape(data["encoder_input_tokens"])[0], "float32")}


def test_fit_takes_the_dataset(in_order):
    model = CountingModel()
    model.compile()
    history = model.fit(
        in_order.repeat(), steps_per_epoch=3, epochs=2, shuffle=False, verbose=0
    ).history
    batches = arrays(in_order.repeat(), 6)
    rows = [len(batch["encoder_input_tokens"]) for batch in batches]
    assert history["rows"] == [rows[2], rows[5]]


def test_files_and_arguments_that_cannot_be_used(files, vocabulary, tmp_path):
    missing = [files / "both.tsv", (files / "source", files / "targets")]
    with pytest.raises(UserError, match="targets does not exist"):
        text_dataset(missing, vocabulary)
    with pytest.raises(UserError, match=r"No target file belongs to .*source"):
        text_dataset([files / "source"], vocabulary)
    with pytest.raises(UserError, match=r"one file or more\. Received: none"):
        text_dataset([], vocabulary)
    for length in (1, 31):
        with pytest.raises(UserError, match=f"Received: max_length={length}, "):
            text_dataset(missing, vocabulary, max_length=length, tokens_per_batch=30)
    with pytest.raises(UserError, match=r"max_length=16, .*row_multiple=2"):
        text_dataset(
            missing, vocabulary, max_length=16, tokens_per_batch=30, row_multiple=2
        )
    too_small = {
        "sample_lines": 0,
        "max_shapes": 0,
        "row_multiple": 0,
        "shuffle_buffer": -1,
    }
    for name, number in too_small.items():
        message = f"{name} must be at least {number + 1}. Received: {number}"
        with pytest.raises(UserError, match=message):
            text_dataset(missing, vocabulary, **{name: number})
    with pytest.raises(
        UserError, match=r"one path with both sides, .* or .*Received: \('a', 'b', 'c'"
    ):
        text_dataset([("a", "b", "c")], vocabulary)
    (tmp_path / "empty.tsv").write_text("a\t\n")
    with pytest.raises(UserError, match="No sentence pair is left"):
        text_dataset([tmp_path / "empty.tsv"], vocabulary)


def test_unequal_numbers_of_lines_are_an_error_where_they_are_noticed(
    files, vocabulary, tmp_path
):
    short = tmp_path / "short"
    short.write_text("Baum\n" * 1100)
    both = [(files / "source", short)]
    message = "source has 1200 lines, but .*short has 1100"
    with pytest.raises(UserError, match=message):
        text_dataset(both, vocabulary, **SETTINGS)
    dataset = text_dataset(both, vocabulary, sample_lines=100, **SETTINGS)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        arrays(dataset)
