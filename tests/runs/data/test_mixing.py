"""Data mixtures of text files, datasets and records, as set by --mixture."""

import dataclasses
import json
from fractions import Fraction

import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.runs.data import from_settings, mixing
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.prepared_run import prepare_run
from tests.runs.replace_settings import replace_settings
from tests.runs.reverse_task import reversed_pairs
from tests.runs.small_runs import assert_same_batches, prepare_records


@pytest.fixture
def write_pairs(tmp_path):
    """Writes random pairs to a TSV file and returns its path."""

    def write(name, count, seed):
        path = tmp_path / f"{name}.tsv"
        pairs = reversed_pairs(count, seed)
        path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
        return path

    return write


def prepare_data(config, model_dir):
    lines = []
    with log_to(lines.append):
        return prepare_run(config, model_dir), lines


def add_mixture(config, *items, **settings):
    return replace_settings(config, "data", mixture=tuple(items), **settings)


def test_parts_are_logged_recorded_and_trained_on(config, model_dir, write_pairs):
    one, other = write_pairs("one", 20, 71), write_pairs("other", 9, 72)
    mixed = add_mixture(config, f"{one}:3/2", f"{other}:1/3")
    data, lines = prepare_data(mixed, model_dir)
    assert lines[-1].splitlines() == [
        "an epoch has 60 pairs of the main corpus, and",
        f"  30 of {one}: 20 times 3/2",
        f"  3 of {other}: 9 times 1/3",
    ]
    assert "text files: 93 pairs: " in lines[-2]
    assert len(data.train) == 89
    corpus = json.loads(model_dir.run_card_file.read_text())["corpus"]
    assert [part["pairs"] for part in corpus["mixture"]] == [20, 9]
    assert [part["rate"] for part in corpus["mixture"]] == ["3/2", "1/3"]
    assert len({part["fingerprint"] for part in corpus["mixture"]}) == 2
    # The dev set comes from the main corpus only.
    assert len(data.dev) == 20
    again, _ = prepare_data(mixed, model_dir)
    assert again.summary == data.summary


def test_without_a_mixture_batching_is_unchanged(config, model_dir):
    data, lines = prepare_data(config, model_dir)
    assert len(lines) == 2
    assert data.mixture == []
    assert type(data.batching).__name__ == "BucketBatching"


def test_another_mixture_is_refused(config, model_dir, write_pairs):
    one = write_pairs("one", 20, 71)
    mixed = add_mixture(config, f"{one}:1")
    prepare_data(mixed, model_dir)
    for items in ((), (f"{one}:2",)):
        with pytest.raises(UserError, match=r"--mixture: .* in the model_dir, .* now"):
            prepare_data(add_mixture(config, *items), model_dir)
        assert model_dir.config() == mixed


def test_other_text_of_a_part_is_refused(config, model_dir, write_pairs):
    one = write_pairs("one", 20, 71)
    prepare_data(add_mixture(config, f"{one}:1"), model_dir)
    prepare_data(add_mixture(config, f"{one.rename(f'{one}.tsv')}:1"), model_dir)
    write_pairs("one", 20, 73)
    message = r"one.tsv \(--mixture\) is not the text .* its SHA-256 is .*…, expected"
    with pytest.raises(UserError, match=message):
        prepare_data(add_mixture(config, f"{one}:1"), model_dir)


def test_faults_of_a_part_are_reported(config, model_dir, write_pairs, tmp_path):
    one = write_pairs("one", 5, 71)
    with open(one, "ab") as file:
        file.write(b"\ta\n")
    _, lines = prepare_data(add_mixture(config, f"{one}:1"), model_dir)
    assert lines[0].startswith(f"warning: {one}: train: 1 of 6 lines have no text")
    model_dir = ModelDir(tmp_path / "new")
    with pytest.raises(UserError, match=r"nowhere\.tsv does not exist"):
        prepare_data(add_mixture(config, f"{tmp_path}/nowhere.tsv:1"), model_dir)
    with pytest.raises(UserError, match="There is no dataset nowhere"):
        prepare_data(add_mixture(config, "nowhere:1"), model_dir)


def test_the_vocabulary_is_learned_in_proportion(config, tmp_path):
    path = tmp_path / "part.tsv"
    path.write_text("".join(f"s{i}\tt{i}\n" for i in range(2500)))
    corpus = from_settings.build_corpus(config.data)
    main = [line for chunk in corpus.chunks("train") for line in chunk[0]]
    for rate, expected in (
        ("1/3", [b"s%d" % i for i in range(2, 2500, 3)]),
        ("2", [b"s%d" % i for i in range(2500) for _ in range(2)]),
        ("3/2", [b"s%d" % i for i in range(2500) for _ in range(1 + i % 2)]),
    ):
        data = add_mixture(config, f"{path}:{rate}").data
        with from_settings.open_filters(data) as filters:
            parts = mixing.open_parts(data, filters)
        text = corpus.chunks("train")
        chunks = list(from_settings.chunks_in_proportion(text, parts, Fraction(1)))
        sources = [line for source, _ in chunks for line in source]
        assert sources == main + expected
        assert [line for _, target in chunks for line in target][len(main) :] == [
            line.replace(b"s", b"t") for line in expected
        ]


def test_a_tag_that_the_vocabulary_splits_is_refused(config, model_dir, write_pairs):
    one = write_pairs("one", 20, 71)
    with pytest.raises(
        UserError, match=r"splits '<bt>' \(--mixture\) into .* --user_s"
    ):
        prepare_data(add_mixture(config, f"{one}:1:<bt>"), model_dir)
    plain, _ = prepare_data(config, model_dir)
    file = str(model_dir.vocabulary_file)
    with pytest.raises(UserError, match=r"splits '<bt>' \(--user_symbols\)"):
        from_settings.build_vocabulary(
            dataclasses.replace(
                config.data, vocabulary_file=file, user_symbols=("<bt>",)
            ),
            plain.corpus,
        )


# --- Records


@pytest.fixture
def prepare(config, tmp_path):
    return lambda name, **settings: prepare_records(
        replace_settings(config, "data", **settings), tmp_path / name
    )


def test_records_of_another_vocabulary_are_refused(
    config, model_dir, write_pairs, prepare
):
    part = prepare(
        "part",
        train_source=(str(write_pairs("one", 40, 71)),),
        train_target=(),
        max_length=7,
    )
    with pytest.raises(UserError, match="No vocabulary can be learned from the rec"):
        prepare_data(add_mixture(config, f"{part}:1"), model_dir)
    other = prepare("other", vocabulary_size=279)
    vocabulary = str(other / "vocabulary.model")
    with pytest.raises(UserError, match="of other settings than the mix") as refused:
        prepare_data(
            add_mixture(config, f"{part}:1", vocabulary_file=vocabulary), model_dir
        )
    assert "--max_length: 7 in the records, 8 now" in str(refused.value)
    assert "vocabulary: SHA-256 " in str(refused.value)
    assert not model_dir.path.exists()


def test_records_started_with_another_mixture_are_refused(write_pairs, prepare):
    one = write_pairs("one", 40, 71)
    folder = prepare("main", mixture=(f"{one}:1",))
    prepare("main", mixture=(f"{one}:1",))
    # Only the vocabulary is of the mixture, and it is not learned again.
    prepare("main", mixture=(f"{one.rename(f'{one}.tsv')}:1",))
    with pytest.raises(UserError, match=r"learned with another mixture: .*, not none"):
        prepare("main")
    # With a vocabulary file, no vocabulary is learned from the mixture.
    prepare("main", vocabulary_file=str(folder / "vocabulary.model"))


@pytest.mark.slow
def test_tags_precede_sources_from_text_and_records(
    config, tmp_path, write_pairs, prepare
):
    one = write_pairs("one", 40, 71)
    symbols = {"user_symbols": ("<bt>",), "vocabulary_size": 281}
    main = prepare("main", mixture=(f"{one}:3/4:<bt>",), **symbols)
    part = prepare(
        "part",
        train_source=(str(one),),
        train_target=(),
        dev_source=(),
        dev_target=(),
        vocabulary_file=str(main / "vocabulary.model"),
    )
    runs = [
        prepare_data(
            add_mixture(config, f"{name}:3/4:<bt>", **symbols, **more),
            ModelDir(tmp_path / f"run-{name.name}"),
        )[0]
        for name, more in ((one, {}), (part, {"records": str(main)}))
    ]
    vocabulary = runs[0].vocabulary
    tag = vocabulary.symbol_ids("<bt>", "mixture")
    expected = []
    for line in one.read_text().splitlines():
        source, target = line.split("\t")
        pair = vocabulary.encode(f"<bt> {source}"), vocabulary.encode(target)
        if max(map(len, pair)) <= config.data.max_length:
            expected.append(pair)
    assert 0 < len(expected) < 40  # some are too long with the tag
    for data in runs:
        tagged = [
            pair
            for pair in (data.train.pair(i) for i in range(len(data.train)))
            if pair[0][: len(tag)].tolist() == tag
        ]
        assert [(s.tolist(), t.tolist()) for s, t in tagged] == expected
        assert [each["pairs"] for each in data.mixture] == [len(expected)]
        report = data.train.report
        assert report.source_tokens == sum(data.train.lengths[:, 0])
        assert report.target_tokens == sum(data.train.lengths[:, 1])
    # The main corpus has no tag, and batches are equal.
    assert len(runs[0].train) == 60 + len(expected)
    assert_same_batches(*runs, epochs=3)
    # Learned from the mixture in both, so equal.
    assert runs[0].vocabulary.sha256 == runs[1].vocabulary.sha256
    assert runs[0].summary == runs[1].summary
    keys = ("rate", "fingerprint", "pairs")
    parts = [[part[key] for data in runs for part in data.mixture] for key in keys]
    assert all(one == other for one, other in parts)
    with pytest.raises(UserError, match="--user_symbols: <bt> in the records,  now"):
        prepare("main", mixture=(f"{one}:3/4:<bt>",), vocabulary_size=281)
