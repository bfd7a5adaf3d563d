"""Files of translations and of trees, scored without a model."""

import gzip
import io
import json
import re
from pathlib import Path

import pytest

from t2t_keras.errors import UserError
from t2t_keras.evaluation.comparison import Comparison, score_translations
from t2t_keras.evaluation.scoring_settings import ScoringSettings
from t2t_keras.files.logs import log_to
from t2t_keras.runs.translation.file_scoring import (
    ScoredFiles,
    TreeComparison,
    score_files,
)

# Pairs of trees, and EVALB's output for them. The first 25 are like a treebank's; the
# others are random, with labels that no treebank has and that cleaning changes.
PRINTED = Path(__file__).parents[2] / "parsing/evalb_printed"
LIKE_A_TREEBANK = 25

TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)))"


@pytest.fixture
def write(tmp_path):
    """Writes a file; returns its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def score(files, log=lambda _: None, **options):
    cutoff_length = options.pop("cutoff_length", None)
    with log_to(log):
        return score_files(files, ScoringSettings(**options), cutoff_length)


def test_lines_are_those_of_the_files(write):
    systems = {
        write("a.de", "Das Haus ist rot .\r\nEr kam\u2028nie.\r\n\r\n"): [
            "Das Haus ist rot .",
            "Er kam\u2028nie.",
            "",
        ],
        write("b.de.gz", gzip.compress(b"\xef\xbb\xbfEin Haus ist rot\nEr geht\nJa")): [
            "Ein Haus ist rot",
            "Er geht",
            "Ja",
        ],
    }
    reference = write("1.de.gz", gzip.compress(b"Ein Haus ist blau\n"))
    rest = write("2.txt", "Er ging nie.\nJa!\n")
    extra = write("extra", "Das Haus ist rot\nEr geht nie.\n\n")
    result = score(
        ScoredFiles(list(systems), [reference, rest], [extra]),
        lowercase=True,
        confidence=True,
        resamples=5,
    )
    assert result == score_translations(
        systems,
        ["Ein Haus ist blau", "Er ging nie.", "Ja!"],
        extra_references=[["Das Haus ist rot", "Er geht nie.", ""]],
        language="de",
        lowercase=True,
        confidence=True,
        resamples=5,
    )
    assert 0 < result.systems[next(iter(systems))]["t2t_bleu"].score < 100


def test_standard_input_is_a_system(write, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(b"a b c d\r\ne\n"))
    monkeypatch.setattr("sys.stdin", stdin)
    reference = write("ref.fr", "a b c d\ne\n")
    result = score(ScoredFiles(["-"], [reference]), metrics=["bleu", "tokenized_bleu"])
    assert isinstance(result, Comparison)
    scores = result.systems["-"]
    assert [each.score for each in scores.values()] == [pytest.approx(100)] * 2
    assert "|tok:moses-fr|" in scores["tokenized_bleu"].signature


def test_what_is_odd_about_files_is_logged(write):
    log: list[str] = []
    lines = [b"a b \xff", *[b"a b c ."] * 14, *[b"\xc3"] * 11]
    lines += [b"a b c ."] * 234
    hypothesis = write("out.txt", b"\n".join(lines))
    reference = write("ref.txt", "a b c\n" * 259 + "a")
    score(ScoredFiles([hypothesis], [reference]), log.append)
    assert log == [
        f"warning: {hypothesis} (--hypotheses): 12 of 260 lines are not valid UTF-8; "
        "their invalid bytes are read as U+FFFD. Lines: 1, 16, 17, 18, 19, 20, 21, "
        "22, 23, 24, …",
        f"warning: {hypothesis} looks tokenized: 248 of 260 lines end in a separate "
        "period. The metrics tokenize by themselves; scores of plain text are the "
        "ones to compare.",
        "tokenized BLEU is left out: Moses needs a --target_language that it has "
        "rules for, such as de. Received: none",
    ]
    log.clear()
    files = ScoredFiles([hypothesis], [reference], target_language="ko")
    score(files, log.append, tokenize="none")
    assert len(log) == 2 and log[1].endswith("Received: ko")
    log.clear()
    files = ScoredFiles([reference], [reference], target_language="pt")
    score(files, log.append)
    assert log == []


@pytest.mark.parametrize(
    ("name", "options", "tokenizer", "logged"),
    [
        ("ref.zh", {}, "zh", "^TER and tokenized BLEU are left out: .* 'zh' is"),
        ("ref.zho_Hans.gz", {}, "zh", "^TER and tokenized BLEU are left out"),
        ("ref.zh", {"metrics": ["bleu"]}, "zh", "^$"),
        ("ref.zh", {"metrics": ["bleu"], "tokenize": "13a"}, "13a", "--tokenize=zh"),
        ("ref.zh", {"metrics": ["chrf"], "tokenize": "13a"}, None, "^$"),
        ("ref.txt", {}, "13a", "^warning: .* the references are written without spa"),
        ("ref.km", {"metrics": ["bleu"]}, "13a", "^warning: .* 'km' is written witho"),
    ],
)
def test_the_name_of_the_reference_chooses_the_tokenizer(
    name, options, tokenizer, logged, write
):
    text = "今天天气很好。我们去公园吧。\n".encode()
    reference = write(name, gzip.compress(text) if name.endswith(".gz") else text)
    log: list[str] = []
    result = score(ScoredFiles([reference], [reference]), log.append, **options)
    scores = result.systems[reference]
    if tokenizer:
        assert f"|tok:{tokenizer}|" in scores["bleu"].signature
        assert scores["bleu"].score == pytest.approx(100 * (tokenizer == "zh"))
    assert re.search(logged, "\n".join(log))


def test_files_that_cannot_be_scored_are_refused(write, tmp_path):
    three, two = write("three.de", "a\nb\nc\n"), write("two.de", "a\nb")
    empty, tsv = write("empty.de", ""), write("both.tsv", "a\tb\n")
    trees, tree_text = write("trees.mrg", TREE * 2), write("trees.txt", f"\n{TREE}\n\n")
    speech = write("speech.de", "(Beifall)\n(Beifall) Ja (Nein)\n")
    gone = str(tmp_path / "thre.de")
    for files, options, message in (
        (([two], [three]), {}, f"{two} has 2 lines, but {three} has 3. Line i of one"),
        (([three, two], [three]), {}, f"{two} has 2 lines, but {three} has 3"),
        (([three], [three], [two]), {}, f"{two} has 2 lines, but {three} has 3"),
        (([empty], [two]), {}, f"{empty} has 0 lines, but {two} has 2"),
        (([two], [empty]), {}, f"{empty} is empty: there is no sentence to score"),
        (([gone], [three]), {}, f"{gone} does not exist. Did you mean three.de?"),
        (([three], [gone]), {}, f"{gone} does not exist. Did you mean three.de?"),
        (([three], [str(tmp_path)]), {}, f"{tmp_path} is a folder"),
        (([three], []), {}, "--reference is required with --hypotheses"),
        (([two, two], [two]), {}, f"--hypotheses names {two} twice"),
        (([two, f"{tmp_path}/../{tmp_path.name}/two.de"], [two]), {}, "two.de twice"),
        ((["-"], ["-"]), {}, "read once. Received: - for --hypotheses and --reference"),
        (([two], [two], ["-", "-"]), {}, "--extra_reference and --extra_reference"),
        (([tsv], [two]), {}, f"{tsv} holds both sides"),
        (([two], [tsv]), {}, f"{tsv} holds both sides"),
        (([two], [tree_text]), {}, f"{tree_text} holds trees in brackets, not text"),
        (([tree_text], [two]), {}, f"{tree_text} holds trees in brackets, not text"),
        (([trees], [two]), {}, f"{trees} holds trees, but {two} holds text. Give tr"),
        (([two], [trees], [], "de"), {}, "but --target_language is de. Leave it out"),
        (([two], [trees], [two]), {}, "--extra_reference is for text"),
        (([two], [two]), {"cutoff_length": 9}, "--cutoff_length is for trees, but"),
        (([two], [two]), {"paired_test": "bootstrap"}, "needs two or more. Received"),
        (([trees], [trees]), {"lowercase": True}, "--lowercase is for text, but"),
        (([trees], [trees]), {"metrics": ["bleu"]}, "--metrics is for text, but"),
        (([two], [trees]), {}, f"{two}, line 1: “a” is outside of all brackets"),
        (([tree_text], [trees]), {}, f"{tree_text} has 1 trees, but {trees} has 2"),
        (([trees], [two], [], "tree"), {}, f"{two}, line 1: “a” is outside of"),
    ):
        with pytest.raises(UserError) as caught:
            score(ScoredFiles(*files), **options)
        assert message in str(caught.value), (files, options, caught.value)
    assert isinstance(score(ScoredFiles([speech], [two])), Comparison)


def printed_rows() -> list[str]:
    lines = (PRINTED / "printed.txt").read_text(encoding="utf-8").splitlines()
    return lines[3 : 3 + LIKE_A_TREEBANK]


@pytest.fixture
def like_a_treebank(write):
    """The two files of trees that EVALB has scored."""
    return [
        write(
            f"{side}.mrg",
            "\n".join((PRINTED / f"{side}.mrg").read_text().split("\n")[:25]),
        )
        for side in ("test", "gold")
    ]


def test_the_table_of_trees_is_the_output_of_evalb(like_a_treebank):
    test, gold = like_a_treebank
    result = score(ScoredFiles([test], [gold]))
    lines = result.describe().splitlines()
    start = lines.index("=" * 76) + 1
    assert lines[start:][:LIKE_A_TREEBANK] == printed_rows()
    # EVALB's summary of these rows, from its own counts of brackets.
    columns = zip(*(map(int, row.split()[5:8]) for row in printed_rows()), strict=True)
    matched, gold_brackets, test_brackets = map(sum, columns)
    f1 = 100 * 2 * matched / (gold_brackets + test_brackets)
    assert f"Bracketing FMeasure       = {f1:6.2f}" in lines
    errors = sum(row.split()[2] == "1" for row in printed_rows())
    assert errors and f"Number of Error sentence  = {errors:6d}" in lines
    assert lines[0] == test
    assert lines[1].startswith(f"  F1 {f1:.2f}  labeled brackets as EVALB counts them")
    assert lines[2].startswith("  F1 ") and "of all sentences" in lines[2]
    assert lines.count("=== Summary ===") == 1
    [entry] = json.loads(json.dumps(result.as_dict()))["systems"]
    assert entry["name"] == test
    assert entry["scores"]["f1"] == pytest.approx(f1)


def test_several_parsers_and_a_cutoff_length(like_a_treebank, write):
    test, gold = like_a_treebank
    copy = write("copy.txt", Path(gold).read_bytes())
    files = ScoredFiles([test, gold], [copy], target_language="tree")
    result = score(files, cutoff_length=3)
    assert isinstance(result, TreeComparison)
    assert list(result.systems) == [test, gold]
    assert result.systems[gold].headline == ("F1", 100.0)
    first, second = result.describe().split("\n\n" + gold + "\n")
    assert first.startswith(test) and second.startswith("  F1 100.00  labeled")
    short = sum(int(row.split()[1]) <= 3 for row in printed_rows())
    for text in (first, second):
        assert f"-- len<=3 --\nNumber of sentence        = {short:6d}" in text


def test_lines_without_a_tree_and_trees_of_many_lines(write):
    gold = write("gold.mrg", TREE.replace(" (VP", "\n   (VP") * 3)
    for name, content in (
        ("gaps.mrg", f"{TREE}\n\n{TREE}\n"),
        ("evalb.mrg", f"{TREE}\n(())\n{TREE}\n"),
    ):
        result = score(ScoredFiles([write(name, content)], [gold]))
        text = result.describe()
        assert re.search(r"Number of Skip  sentence  = +1\n", text), name
        assert "Bracketing FMeasure       = 100.00" in text, name
    # The whole of both files, although no line is a tree.
    result = score(ScoredFiles([gold], [gold]))
    assert "Number of Valid sentence  =      3" in result.describe()
