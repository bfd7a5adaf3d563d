"""Shortlists from word alignments: the file, the programs that take it, bad input."""

import collections
import functools
import gzip
import itertools
import json
import re

import pytest

from t2t_keras import Run, UserError
from t2t_keras.runs.export import saved_model
from t2t_keras.runs.export.export_settings import ExportSettings
from t2t_keras.serving.export.requests import Request
from t2t_keras.serving.export.validation import open_session
from t2t_keras.text.word_alignments import format_links
from t2t_keras.translation.lexicon import read_lexicon
from tests.in_process import run_program
from tests.runs.random_model import CONFIG, pad_ids, random_lines
from tests.system.test_ensembles import make_run

SOURCES = (*random_lines(5, seed=3), "", "tree  Bäumelein")
TARGETS = (*random_lines(5, seed=4), "walks", "\tgreen 😀 tree")
# The last word of each side; a word with two links; no link; a possible one.
LINKS = ("0-0", "", "0-0", "0-0 0p0", "0-0", "", "0-0 1-1 1-2")
LINES = ("the old house", "", "Bäume über , walks", "a tree")


@pytest.fixture(scope="module")
def run(tmp_path_factory, vocabulary):
    folder = tmp_path_factory.mktemp("runs") / "one"
    return make_run(folder, vocabulary, 5, num_layers=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory, run):
    """Flags of `prepare` for the text above and its links, but --shortlist."""
    folder = tmp_path_factory.mktemp("text")
    for name, lines in (("source", SOURCES), ("target", TARGETS), ("align", LINKS)):
        text = "".join(f"{line}\n" for line in lines).encode()
        (folder / f"{name}.gz").write_bytes(gzip.compress(text))
    return {
        "train_source": folder / "source.gz",
        "train_target": folder / "target.gz",
        "alignments": folder / "align.gz",
        "vocabulary_file": run.vocabulary_file,
    }


def prepare(files, output, **changed):
    values = {**files, **changed, "shortlist": output}
    return run_program("prepare", *(f"--{name}={v}" for name, v in values.items()))


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory, files):
    path = tmp_path_factory.mktemp("shortlist") / "file"
    done = prepare(files, path)
    assert (done.status, done.stderr) == (0, "")
    assert "from " in done.stdout and " links" in done.stdout
    return path


def pieces_of_word(vocabulary, text, word):
    """Returns the pieces of the n-th word: it is encoded alone."""
    return vocabulary.pieces(vocabulary.encode(text.split()[word])[:-1])


def test_probabilities_are_counted_over_linked_words(vocabulary, lexicon):
    counts = collections.defaultdict(collections.Counter)
    for source, target, links in zip(SOURCES, TARGETS, LINKS, strict=True):
        for link in links.split():
            if "p" in link:
                continue
            i, j = map(int, link.split("-"))
            sides = (pieces_of_word(vocabulary, *s) for s in ((source, i), (target, j)))
            for s, t in itertools.product(*sides):
                counts[s][t] += 1
    assert max(len(each) for each in counts.values()) > 3
    found = {}
    for line in lexicon.read_text().splitlines():
        target, source, probability = line.split(" ")
        found[source, target] = float(probability)
    assert found == pytest.approx(
        {
            (source, target): count / sum(each.values())
            for source, each in counts.items()
            for target, count in each.items()
        },
        abs=1e-8,
    )
    candidates, probabilities = read_lexicon(lexicon, vocabulary)
    pieces = vocabulary.pieces(range(vocabulary.size))
    read = {
        (pieces[source], pieces[target]): float(p)
        for source in range(vocabulary.size)
        for target, p in zip(candidates[source], probabilities[source], strict=True)
        if p
    }
    assert read == pytest.approx(found, abs=1e-7)
    assert (probabilities[:, :-1] >= probabilities[:, 1:]).all()


def test_text_with_both_sides_gives_the_same(files, lexicon, tmp_path):
    pairs = zip(SOURCES, TARGETS, strict=True)
    rows = (json.dumps({"a": source, "b": target}) for source, target in pairs)
    (tmp_path / "text.jsonl").write_text("".join(f"{row}\n" for row in rows))
    text = {"train_source": tmp_path / "text.jsonl", "train_target": ""}
    columns = {"source_column": "a", "target_column": "b"}
    done = prepare(files, tmp_path / "new", **text, **columns)
    assert (done.status, done.stderr) == (0, "")
    assert (tmp_path / "new").read_bytes() == lexicon.read_bytes()


def test_marians_file_is_read(vocabulary, tmp_path):
    (tmp_path / "lex.gz").write_bytes(
        gzip.compress("▁tree ▁a 1e-3\nNULL ▁a 0.5\n▁a NULL 1\n▁a ▁a .25\n".encode())
    )
    candidates, probabilities = read_lexicon(tmp_path / "lex.gz", vocabulary)
    a, tree = (vocabulary.encode(word)[0] for word in ("a", "tree"))
    assert candidates[a].tolist() == [a, tree]
    assert probabilities[a] == pytest.approx([0.25, 0.001])
    assert candidates.sum() == a + tree


@pytest.mark.slow
def test_all_words_change_nothing_and_few_are_obeyed(run, vocabulary, lexicon):
    flags = f"--model_dir={run.path}", "--scores", "--beam_size=3"
    stdin = "\n".join(LINES).encode()
    few = (f"--shortlist={lexicon}", "--shortlist_size=20")
    everything = (f"--shortlist={lexicon}", f"--shortlist_size={vocabulary.size}")
    plain, whole, short = (
        run_program("translate", *flags, *more, stdin=stdin)
        for more in ((), everything, few)
    )
    assert {each.status for each in (plain, whole, short)} == {0}
    for ours, theirs in zip(whole.lines, plain.lines, strict=True):
        *scores, text = ours.split("\t")
        *expected, same = theirs.split("\t")
        assert text == same
        assert list(map(float, scores)) == pytest.approx(
            list(map(float, expected)), abs=1e-4
        )
    assert short.output != plain.output
    # Python gives the same, and keeps the model with its shortlist.
    api = Run(run.path)
    options = {"beam_size": 3, "shortlist": lexicon, "shortlist_size": 20}
    texts = [line.text for line in api.translate(LINES, **options)]
    assert texts == [line.split("\t")[-1] for line in short.lines]
    trained = api.trained(shortlist=lexicon, shortlist_size=20)
    assert trained is api.trained(shortlist=lexicon, shortlist_size=20)
    assert api.trained().shortlist is None


@pytest.mark.slow
def test_an_export_translates_as_the_program_and_names_its_shortlist(
    run, vocabulary, lexicon
):
    api = Run(run.path)
    options = {"shortlist": lexicon, "shortlist_size": 40, "beam_size": 2}
    lines = [line for line in LINES if line]
    expected = list(api.translate(lines, **options))
    version = api.export("ids", **options, max_source_length=16)
    ids = pad_ids([vocabulary.encode(line) for line in lines]).numpy()
    with open_session(version) as session:
        best = session.ask(Request("serving_default", {"input_ids": ids}))
    decoded = [vocabulary.decode(row.tolist()) for row in best["output_ids"]]
    assert decoded == [line.text for line in expected]
    scores = [line.hypotheses[0].score for line in expected]
    assert best["score"] == pytest.approx(scores, abs=1e-5)
    card = json.loads((version / "model_card.json").read_text())
    assert card["shortlist"]["size"] == 40
    assert api.evaluate(**options).perplexity
    assert not list(run.path.glob("translations/*"))  # it is no score of the run
    settings = ExportSettings(
        CONFIG.decoding.override(beam_size=2), max_source_length=16
    )
    trained = api.trained(shortlist=lexicon, shortlist_size=40)
    assert saved_model.newest_export(trained, run, "ids", settings) == version
    other = api.trained(shortlist=lexicon, shortlist_size=41)
    assert saved_model.newest_export(other, run, "ids", settings) is None
    assert saved_model.newest_export(api.trained(), run, "ids", settings) is None
    with pytest.raises(UserError, match="--shortlist_size must be at least 25"):
        options["shortlist_size"] = 24
        api.export(**options, max_source_length=16, prefix=True)


@pytest.mark.slow
def test_all_options_of_decoding_together(vocabulary, lexicon, tmp_path):
    """As a program and from Python, in any batch."""
    # A prefix can be as long as the model has positions, and the shortlist holds it.
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "learned_positions": 30}
    run = make_run(tmp_path / "first", vocabulary, 5, **sizes)
    second = make_run(tmp_path / "second", vocabulary, 7, num_layers=1)
    options = {
        "ensemble_with": [second.path],
        "shortlist": lexicon,
        "shortlist_size": 45,
        "beam_size": 3,
        "length_penalty": "power",
        "alpha": 0.8,
        "min_length": 3,
        "no_repeat_ngram": 2,
        "suppress_unknown": True,
        "extra_length": 7,
        "rerank": "mbr",
        "candidates": 3,
        "n_best": 2,
        "target_tag": "a",
    }
    prefixes = ["walks", "", "green tree", ""]
    flags = [f"--ensemble_with={second.path}", "--prefix=column", "--scores"]
    flags += [
        f"--{name}={str(value).lower() if value is True else value}"
        for name, value in options.items()
        if name != "ensemble_with"
    ]
    flags += ["--alignment_heads=1:2", f"--alignments={tmp_path}/links"]
    lines = [f"{line}\t{start}" for line, start in zip(LINES, prefixes, strict=True)]
    done = run_program(
        "translate",
        f"--model_dir={run.path}",
        *flags,
        stdin="\n".join(lines).encode(),
    )
    assert (done.status, done.stderr) == (0, "")
    ask = functools.partial(
        Run(run.path).translate,
        LINES,
        **{**options, "prefixes": prefixes},
        alignments=True,
        alignment_heads="1:2",
    )
    found, alone = list(ask()), list(ask(lines_at_once=1))
    for one, other in zip(found, alone, strict=True):
        assert (one.text, one.alignment) == (other.text, other.alignment)
    texts = [each.text for line in found for each in line.hypotheses]
    assert [line.split("\t")[3] for line in done.lines] == texts
    assert len(set(texts)) > 4
    assert (tmp_path / "links").read_text().splitlines() == [
        format_links(line.alignment) for line in found
    ]
    for line, start, source in zip(found, prefixes, LINES, strict=True):
        assert all(each.text.startswith(start) for each in line.hypotheses)
        sizes = len(source.split()), len(line.text.split())
        assert all(i < sizes[0] and j < sizes[1] for i, j in line.alignment)


def refused(program, *flags):
    done = run_program(program, *flags)
    assert (done.status, done.output) == (2, b"")
    return done.stderr


def test_a_wrong_file_is_refused(run, vocabulary, lexicon, tmp_path):
    model = f"--model_dir={run.path}"
    for text, problem in (
        ("", "is empty"),
        ("▁a ▁tree\n", "Line 1 of .* must have .* Received: ▁a ▁tree"),
        ("▁a ▁tree 0.5\n▁a ▁tree 1.5\n", "Line 2 of"),
        ("▁a ▁tree nan\n", "Received: ▁a ▁tree nan"),
        ("▁a ▁Tree 0.5\n", "another vocabulary: line 1 has the piece ▁Tree"),
    ):
        path = tmp_path / "wrong"
        path.write_text(text)
        with pytest.raises(UserError, match=problem):
            read_lexicon(path, vocabulary)
    for program in ("translate", "evaluate", "export"):
        error = refused(program, model, f"--shortlist={tmp_path}/missing")
        assert "missing" in error and "--shortlist" in error
        error = refused(program, model, "--shortlist_size=50")
        assert "--shortlist_size is for --shortlist" in error
    with pytest.raises(UserError, match="a whole number of more than 3"):
        Run(run.path).trained(shortlist=lexicon, shortlist_size=3)
    error = refused("export", model, f"--shortlist={lexicon}", "--format=ctranslate2")
    assert "--shortlist is for SavedModels" in error
    error = refused(
        "translate",
        model,
        f"--shortlist={lexicon}",
        "--shortlist_size=9",
        "--prefix=column",
    )
    assert "--shortlist_size must be at least" in error
    for flags, message in (
        (("--hypotheses=a.de", "--reference=b.de"), "is for scores of a model, but"),
        (("--alignments=a", "--gold_alignments=b"), "is for translations, but --al"),
    ):
        error = refused("evaluate", f"--shortlist={lexicon}", *flags)
        assert f"--shortlist {message}" in error


def test_wrong_alignments_are_refused_and_nothing_is_written(files, tmp_path):
    output = tmp_path / "shortlist"
    for lines, problem in (
        (LINKS[:-1], "Line 7 is in the text only"),
        ((*LINKS, ""), "Line 8 is in .* only"),
        (("9-0", *LINKS[1:]), "has the link 9-0, but the sentences have"),
        (("0", *LINKS[1:]), "must have links such as 0-0"),
        ([""] * len(LINKS), "has no link between words"),
    ):
        path = tmp_path / "links"
        path.write_text("".join(f"{line}\n" for line in lines))
        done = prepare(files, output, alignments=path)
        assert done.status == 2
        assert re.search(problem, done.stderr), done.stderr
        assert sorted(tmp_path.iterdir()) == [path]
    error = refused("prepare", f"--shortlist={output}")
    assert "is required" in error
    error = prepare({**files, "alignments": path}, tmp_path / "no/folder").stderr
    assert "no/folder cannot be written" in error
    every = [f"--{name}={value}" for name, value in files.items()]
    error = refused("prepare", *every, f"--shortlist={output}", "--keep_text")
    assert "--keep_text is for records" in error
    error = refused("prepare", f"--output={tmp_path}", "--alignments=x")
    assert "--alignments is for --shortlist" in error
