"""Benchmark of decoding: equal work for all programs, counts, and its table."""

import argparse
import json

import ctranslate2
import numpy as np
import pytest

from benchmarks.decoding import export_ours, measured, ours, run, write

# A model that takes two seconds instead of minutes. All sizes differ.
SMALL = (
    ("VOCABULARY", 67),
    ("LAYERS", 2),
    ("WIDTH", 24),
    ("INNER", 40),
    ("HEADS", 3),
)


def given(**settings) -> argparse.Namespace:
    default = {"batch": "4", "sentences": 10, "rounds": 2, "at_once": 1}
    return argparse.Namespace(**{**default, "real_lengths": False, **settings})


def test_sentences_are_of_the_stated_lengths_and_always_the_same():
    all_of_them = measured.sentences(256)
    lengths = [len(sentence) + 1 for sentence in all_of_them]
    assert (min(lengths), max(lengths)) == (20, measured.LONGEST)
    assert np.mean(lengths) == pytest.approx(measured.LENGTH, abs=0.1)
    assert measured.sentences(3) == all_of_them[:3]
    ids = np.concatenate(all_of_them)
    assert 3 <= ids.min() < ids.max() < measured.VOCABULARY
    # The limit allows every output its full length.
    assert min(lengths) + export_ours.EXTRA >= measured.LENGTH


def test_real_lengths_are_spread():
    sentences = measured.sentences(256, real_lengths=True)
    lengths = [len(sentence) + 1 for sentence in sentences]
    assert 4 <= min(lengths) < max(lengths) <= 90
    assert np.percentile(lengths, [25, 75]) == pytest.approx([17, 29], abs=1)
    assert np.mean(lengths) == pytest.approx(25, abs=0.5)


def test_padding_follows_the_end():
    expected = [[5, 6, 1, 0], [7, 1, 0, 0]]
    assert measured.pad_batch([[5, 6], [7]], 4).tolist() == expected
    assert measured.pad_batch([[5, 6], [7]]).shape == (2, 3)


def test_it_counts_the_tokens_of_every_round(monkeypatch, capsys):
    clock = iter(range(1000))
    monkeypatch.setattr(measured.time, "perf_counter", lambda: next(clock))
    used = iter((0, 4, 10, 12))
    monkeypatch.setattr(measured.time, "process_time", lambda: next(used))
    asked = []

    def translate(batch):
        asked.append(len(batch))
        return [[9] * 3 for _ in batch]

    measured.measure(translate, given())
    told = json.loads(capsys.readouterr().out)["batches"]["4"]
    # One warm-up batch, then ten sentences in each round.
    assert asked == [4, 4, 4, 2, 4, 4, 2]
    assert told["tokens"] == 30
    # The clock is read before and after the round, and each of its three batches.
    assert told["tokens_per_second"] == pytest.approx(30 / 7)
    assert (told["p50_ms"], told["p95_ms"]) == (1000, 1000)
    assert told["tokens_per_cpu_second"] == pytest.approx(60 / (4 + 2))


def test_two_parallel_batches_have_twice_the_sentences(monkeypatch, capsys):
    asked = []

    def translate(batch):
        asked.append(batch)
        return batch

    measured.measure(translate, given(batch="8", at_once=2, rounds=1))
    assert [len(batch) for batch in asked] == [8, 8, 8, 8]
    told = json.loads(capsys.readouterr().out)["batches"]["8"]
    assert told["tokens"] == sum(map(len, measured.sentences(16)))


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Folder of a small model, as written by `write`."""
    for name, size in SMALL:
        monkeypatch.setattr(measured, name, size)
    monkeypatch.setattr("sys.argv", ["write", f"--model={tmp_path}"])
    write.main()
    return tmp_path


def by_ctranslate2(folder, sentences):
    translator = ctranslate2.Translator(str(folder / "ctranslate2_float32"))
    found = translator.translate_batch(
        [list(map(str, sentence)) for sentence in sentences],
        beam_size=measured.BEAM,
        length_penalty=measured.ALPHA,
        max_decoding_length=measured.LENGTH,
        min_decoding_length=measured.LENGTH,
    )
    return [[int(piece) for piece in one.hypotheses[0]] for one in found]


@pytest.mark.parametrize(
    "xla",
    [
        pytest.param("off", marks=pytest.mark.slow),
        pytest.param("on", marks=pytest.mark.release),
    ],
)
def test_ours_finds_what_ctranslate2_finds(small, monkeypatch, xla):
    monkeypatch.setattr("sys.argv", ["export", f"--to={small}/saved", f"--xla={xla}"])
    export_ours.main()
    sentences = measured.sentences(9)
    expected = by_ctranslate2(small, sentences)
    with ours.open_translator(f"{small}/saved", threads=1, at_once=1) as translate:
        found = translate(sentences)
    assert {len(ids) for ids in found} == {measured.LENGTH}
    # Our search must end at the limit, which can change the best hypothesis.
    assert sum(a[:18] == b[:18] for a, b in zip(found, expected, strict=True)) >= 8
    assert len({tuple(ids) for ids in found}) > 3
    for ids in found:
        assert ids[-1] == measured.EOS
        assert not {0, measured.EOS} & set(ids[:-1])


@pytest.mark.slow
def test_real_outputs_are_as_long_as_their_sources(small, monkeypatch):
    arguments = ["export", f"--to={small}/saved", "--real_lengths"]
    monkeypatch.setattr("sys.argv", arguments)
    export_ours.main()
    sentences = measured.sentences(7, real_lengths=True)
    with ours.open_translator(f"{small}/saved", 1, 1) as translate:
        found = translate(sentences)
    assert [len(ids) for ids in found] == [len(source) + 1 for source in sentences]


def result(rate, first=(1, 2), peak=1.0):
    at_size = {"tokens_per_second": rate, "first": list(first)}
    batches = {"1": {**at_size, "p50_ms": rate * 10, "p95_ms": 77}, "8": at_size}
    return {"batches": batches, "peak_gigabytes": peak}


def test_the_table_has_medians_and_names_programs_with_other_results():
    results = {
        run.REFERENCE: [result(2), result(9), result(4, peak=3.25)],
        "other": [result(5, first=(1, 3)), {"error": "once"}],
        "absent": [{"error": "ModuleNotFoundError: No module named 'torch'"}],
        "real lengths": [result(6)],
    }
    rows = [line.split(" | ") for line in run.table(results, [1, 8]).splitlines()[4:]]
    assert rows[0] == [
        f"| {run.REFERENCE}",
        "4",
        "4",
        "40",
        "77",
        "3.2",
        "2 of 2 |",
    ]
    assert rows[1][1:3] == ["5", "5"]
    assert rows[1][-1] == "1 of 2 |"
    assert rows[2][1] == "ModuleNotFoundError: No module named 'torch' |"
    assert rows[3][-1] == " |"


def test_every_row_is_a_program_of_this_folder():
    names = [name for name, *_ in run.ROWS]
    assert len(set(names)) == len(names)
    assert run.REFERENCE in names
    for _, environment, program, settings in run.ROWS:
        assert environment in ("ours", "torch", "keras_hub")
        path = run.ROOT / f"benchmarks/decoding/{program}.py"
        text = path.read_text() + (path.parent / "measured.py").read_text()
        for setting in settings.split():
            name = setting.split("=")[0].removeprefix("--")
            assert f'"--{name}"' in text or f"{name}=[" in text, (program, setting)
