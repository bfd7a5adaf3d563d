"""Word alignments of a model: against its attention maps; programs and bad input."""

import itertools
import json
import re

import numpy as np
import pytest

from t2t_keras import Run, UserError
from t2t_keras.runs.translation.map_maker import MapMaker
from t2t_keras.runs.translation.word_aligner import WordAligner
from t2t_keras.text.word_alignments import format_links
from tests.in_process import run_program
from tests.runs.random_model import (
    as_trained_model,
    random_lines,
    random_model,
    random_vocabulary,
)

SOURCES = (*random_lines(6, seed=8), "", "grünes 😀 <b>", " the  old\ttree ", "walks")
TARGETS = ("", *random_lines(7, seed=9), "Bäume", "über über, . grün")


@pytest.fixture(scope="module")
def trained():
    vocabulary = random_vocabulary()
    # Several decoder layers, of which the last aligns by default.
    model = random_model(vocabulary, encoder_layers=1, decoder_layers=3)
    return as_trained_model(model, vocabulary)


def slow_links(maps, heads, words_before=0):
    """Returns the links of a pair by sums over the attention maps of its pieces."""
    sides = maps.memory.keys, maps.memory.queries
    weights_RHTS = np.asarray(maps.memory.weights, "float64")
    numbers = [
        # The end of the sentence is no word.
        list(itertools.accumulate(piece.startswith("▁") for piece in side[:-1]))
        for side in sides
    ]
    if not all(numbers):
        return ()
    sizes = [int(max(side)) for side in numbers]
    weights_IJ = np.zeros(sizes)
    for layer, head in heads:
        for (s, i), (t, j) in itertools.product(*map(enumerate, numbers)):
            pieces = numbers[1].count(j)
            weights_IJ[i - 1, j - 1] += weights_RHTS[layer - 1, head - 1, t, s] / pieces
    best = weights_IJ[words_before:].argmax(0) if sizes[0] > words_before else []
    return tuple(sorted((int(i), j) for j, i in enumerate(best)))


@pytest.mark.slow
def test_links_are_those_of_the_attention_maps(trained):
    pairs = list(zip(SOURCES, TARGETS, strict=True))
    tagged = [(f"a {source}", target) for source, target in pairs]
    make_maps = MapMaker(trained)
    maps, maps_of_tagged = (
        [each for each, _ in make_maps(*zip(*sides, strict=True))]
        for sides in (pairs, tagged)
    )
    found = {}
    for heads, expected in (
        (None, [(3, 1), (3, 2), (3, 3)]),
        ("1,3:1", [(1, 1), (1, 2), (1, 3), (3, 1)]),
    ):
        aligner = WordAligner(trained, heads)
        found[heads] = aligner.align(pairs)
        assert found[heads] == [slow_links(each, expected) for each in maps], heads
        assert [links for i, links in enumerate(found[heads]) if i in (0, 6)] == [
            (),
            (),
        ]
        for (source, target), links in zip(pairs, found[heads], strict=True):
            assert len(links) == (len(target.split()) if source else 0)
            assert all(i < len(source.split()) for i, _ in links)
        expected = [slow_links(each, expected, 1) for each in maps_of_tagged]
        assert aligner.align(tagged, words_before=1) == expected
        # A batch of one gives the same.
        assert aligner.align(pairs[4:5]) == found[heads][4:5]
    assert found[None] != found["1,3:1"]


@pytest.mark.slow
def test_a_sentence_beyond_the_limit_is_aligned_to_it(trained):
    words = "tree " * 600
    [links] = WordAligner(trained).align([(words, words)])
    assert len(links) > 100
    assert max(max(link) for link in links) < 512


@pytest.mark.slow
def test_translate_writes_the_alignment_of_each_best_translation(short_run, tmp_path):
    path, run = tmp_path / "out.align", Run(short_run.model_dir.path)
    flags = f"--model_dir={run.path}", "--beam_size=2", f"--alignments={path}"
    sources = ["a b c", "", "j i h g", "  ", "f e"]
    done = run_program("translate", *flags, stdin="\n".join(sources).encode())
    assert (done.status, done.stderr) == (0, "")
    lines = list(run.translate(sources, beam_size=2, alignments=True))
    assert done.lines == [line.text for line in lines]
    written = path.read_text().splitlines()
    assert written == [format_links(line.alignment) for line in lines]
    assert [bool(line) for line in written] == [True, False, True, False, True]
    pairs = [(source, line.text) for source, line in zip(sources, lines, strict=True)]
    assert run.align(pairs) == [line.alignment for line in lines]
    assert next(run.translate(["a b c"], beam_size=2)).alignment is None
    # Prefixes and reranking: still of the best, whichever that is.
    options = {"prefixes": ["c b", ""], "rerank": "mbr", "lines_at_once": 1}
    heads = {"alignment_heads": "1:3"}
    both = list(run.translate(["a b c", "f e"], alignments=True, **heads, **options))
    pairs = list(zip(["a b c", "f e"], (line.text for line in both), strict=True))
    assert [line.alignment for line in both] == run.align(pairs, **heads)


REFUSED = (
    ("translate", "--alignment_heads=1", "is for --alignments. Add that."),
    ("translate", "--alignments=- x", "--output is the same. Received: - for both"),
    ("translate", "--alignments=x --output=./x", "--output is the same. Received: x"),
    ("translate", "--alignments=A --alignment_heads=1:x", "takes LAYER:HEAD, or"),
    ("translate", "--alignments=A --alignment_heads=2:1", "layers 1 to 1, with heads"),
    ("translate", "--alignments=no/such/A", "no/such/A cannot be written"),
    ("evaluate", "--alignment_heads=1", "is for --alignments. Add that."),
    ("evaluate", "--gold_alignments=G --beam_size=2", "--beam_size is for transl"),
    ("evaluate", "--gold_alignments=G --hypotheses=x", "--hypotheses is for transl"),
    ("evaluate", "--gold_alignments=no", "There is no file no (--gold_alignments)"),
    ("evaluate", "--alignments=A --alignment_heads=7", "layers 1 to 1, with"),
    ("evaluate", "--gold_alignments=G --source=S", "one is missing"),
    ("evaluate", "--gold_alignments=G", "G (--gold_alignments) has 2 lines, but"),
)


def test_bad_input_is_refused(short_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "G").write_text("0-0\n1-1\n")
    (tmp_path / "S").write_text("a b\n")
    for program, flags, message in REFUSED:
        flags = [f"--model_dir={short_run.model_dir.path}", *flags.split()]
        done = run_program(program, *[flag for flag in flags if flag != "x"])
        assert (done.status, done.output) == (2, b""), (flags, done)
        assert message in done.stderr, (flags, done.stderr)
    run = Run(short_run.model_dir.path)
    for use, message in (
        (lambda: run.align(["ab"]), "Each pair must be a source and its target"),
        (lambda: run.align([], alignment_heads="9"), "names a head that the model"),
        (lambda: run.align([], alignment_heads=2), "names a head that the model"),
        (lambda: run.translate(["a"], sample=True), "--sample must be a Sampling"),
        (lambda: run.translate(["a"], target_tag=3), "--target_tag must be text"),
        (lambda: run.translate(["a", "b"], prefixes="ab"), "must be in a list. Rec"),
        (
            lambda: [*run.translate(["a", "b"], prefixes=["", None])],
            "The prefix of line 2 must be a text. Received: None",
        ),
        (
            lambda: run.translate(["a"], ensemble_with=[1]),
            "ensemble_with must be a list of model directories. Received: \\[1\\]",
        ),
        (lambda: run.translate(["a"], alignment_heads="1"), "is for --alignments"),
        (
            lambda: run.translate(["a"], alignments=True, paragraphs=True),
            "--alignments counts the words of a sentence, and --paragraphs splits",
        ),
    ):
        with pytest.raises(UserError, match=message):
            use()


def test_files_of_alignments_are_scored_and_checked(tmp_path):
    texts = {
        "gold": "0-0 1-2 2p1\n\n0-0\n",
        "out": "0-0 1-2 2-1\n0-1\n0-1\n",
        "short": "0-0\n\n",
        "long": "0-0\n1-0\n0-0\n",
        "wrong": "0-0\n\n0:0\n",
        "empty": "",
        "en": "the old dog\nyes\nno\n",
        "de": "der alte Hund\nja doch\nnein nein\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)

    def evaluate(found, gold, *flags):
        names = (
            f"--alignments={tmp_path / found}",
            f"--gold_alignments={tmp_path / gold}",
        )
        return run_program("evaluate", *names, *flags)

    # 3 of 5 links are possible, 2 of 3 sure ones are found.
    done = evaluate("out", "gold")
    assert (done.status, done.stderr) == (0, "")
    assert [line.split()[-1] for line in done.lines[1:]] == ["37.50", "60.00", "66.67"]
    sides = f"--source={tmp_path / 'en'}", f"--reference={tmp_path / 'de'}"
    scores = json.loads(evaluate("out", "gold", "--json", *sides).stdout)
    assert scores["aer"] == pytest.approx(37.5)
    for found, gold, flags, message in (
        ("short", "gold", (), "short has 2 lines, but .*gold has 3"),
        ("wrong", "gold", (), r"Line 3 of .*wrong \(--alignments\) must have links"),
        ("out", "wrong", (), r"Line 3 of .*wrong \(--gold_alignments\) must"),
        ("empty", "gold", (), r"empty \(--alignments\) is empty"),
        ("long", "gold", sides, r"Line 2 of .*long \(--alignments\) has the link 1-0"),
        ("short", "gold", sides, "has 2 lines, but there are 3 sentence pairs"),
        ("out", "gold", ("--alignment_heads=1",), "Add --model_dir, or leave it out"),
    ):
        done = evaluate(found, gold, *flags)
        assert (done.status, done.output) == (2, b""), (found, gold)
        assert re.search(message, done.stderr), done.stderr
    done = run_program("evaluate", f"--alignments={tmp_path / 'out'}")
    assert "belong together; one is missing" in done.stderr


@pytest.mark.slow
def test_evaluate_aligns_and_scores_given_pairs(short_run, tmp_path):
    run, path = Run(short_run.model_dir.path), tmp_path / "out.align"
    pairs = short_run.held_out
    gold = tmp_path / "gold"
    links = run.align(pairs)
    # Of the gold links, the model's own and one more.
    gold.write_text("".join(f"{format_links(each)} 0-1\n" for each in links))
    flags = f"--model_dir={run.path}", f"--gold_alignments={gold}"
    done = run_program("evaluate", *flags, f"--alignments={path}")
    assert (done.status, done.stderr) == (0, "")
    assert path.read_text().splitlines() == [format_links(each) for each in links]
    counts = sum(map(len, links)), sum(len({*each, (0, 1)}) for each in links)
    assert done.lines[0].startswith(f"{len(pairs)} sentences, {counts[0]} links, ")
    error_rate = 100 - 100 * 2 * counts[0] / sum(counts)
    assert float(done.lines[1].split()[1]) == pytest.approx(error_rate, abs=0.006)
    assert done.lines[2].split() == ["precision", "100.00"]
    # Without gold links, they are only written.
    done = run_program("evaluate", flags[0], f"--alignments={tmp_path / 'again'}")
    assert (done.status, done.output) == (0, b"")
    assert (tmp_path / "again").read_text() == path.read_text()
