"""The translate program: input and output lines, files, scores, refused flags."""

import functools
import gzip

import pytest

from t2t_keras.errors import UserError
from t2t_keras.runs.run import Run
from t2t_keras.translation import translator
from tests.in_process import run_program
from tests.system.hostile_lines import BLANK, LINES

SOURCE = b"a b c\n\nj i h g\n  \nf\n"


@pytest.fixture
def translate(reverse_run):
    return functools.partial(run_translate, reverse_run)


@pytest.fixture
def translate_short(short_run):
    return functools.partial(run_translate, short_run)


def run_translate(run, *arguments, stdin=b""):
    flag = f"--model_dir={run.model_dir.path}"
    return run_program("translate", flag, *arguments, stdin=stdin)


def test_standard_input_and_scores_and_a_line_over_the_limit(translate):
    flags = "--beam_size=1", "--alpha=0", "--scores"
    done = translate(*flags, stdin=SOURCE + b"a b c d e " * 110)
    assert done.status == 0
    assert done.stderr == "warning: line 6 is too long; its end was not translated\n"
    fields = [line.split("\t") for line in done.lines]
    assert len(fields) == 6
    # The line of a single letter is not compared: training has no source that short.
    assert [row[2] for row in fields[:4]] == ["c b a", "", "g h i j", ""]
    assert all(row[0] == row[1] for row in fields) and float(fields[0][0]) < 0


def test_each_input_line_gives_one_output_line(translate_short):
    # The last line has no LF at its end, as some editors write files.
    flags = "--beam_size=1", "--lines_at_once=4"
    done = translate_short(*flags, stdin=b"\n".join(LINES))
    assert len(done.lines) == len(LINES)
    assert done.lines[0] != ""
    assert [done.lines[i] for i in BLANK] == ["", "", ""]


def test_files(translate, tmp_path):
    """Plain ones are read by the same code: see tests/system/test_client.py."""
    path, output = tmp_path / "in.txt.gz", tmp_path / "out"
    path.write_bytes(gzip.compress(SOURCE))
    done = translate("--beam_size=1", f"--input={path}", f"--output={output}")
    assert (done.status, done.output, done.stderr) == (0, b"", "")
    assert output.read_bytes().startswith(b"c b a\n\ng h i j\n\n")


def test_n_best_and_scores(translate):
    done = translate("--beam_size=4", "--n_best=3", "--scores", stdin=SOURCE)
    assert (done.status, done.stderr) == (0, "")
    fields = [line.split("\t") for line in done.lines]
    # An empty line has one translation, with log probability 0.
    assert [row[0] for row in fields] == list("11123334555")
    assert fields[3] == ["2", "0.000000", "0.000000", ""]
    first = [row for row in fields if row[0] == "1"]
    assert first[0][3] == "c b a"
    # The same text can have several sequences of subwords, with different scores.
    assert len(set(map(tuple, first))) == 3
    scores = [float(row[1]) for row in first]
    assert scores == sorted(scores, reverse=True)
    # Wu et al. 2016, equation 14, with 4 tokens: three letters and EOS.
    assert scores[0] == pytest.approx(float(first[0][2]) / 1.5**0.6, abs=2e-6)


REFUSED = (
    (("--n_best=5",), "--n_best must be from 1 to --beam_size=4. Received: 5"),
    (("--input=no/such.txt",), "There is no file no/such.txt (--input)"),
    (("--checkpoint=newest",), "There is no checkpoint 'newest' in"),
    (("--checkpoint=123",), "There is no checkpoint '123' in"),
    (("--sample", "--beam_size=4"), "--beam_size is not for --sample: it has no beam."),
    (("--temperature=2",), "--temperature is for --sample. Add --sample, or"),
    (("--paragraphs", "--n_best=2"), "--paragraphs gives one translation of each p"),
    *(
        (("--paragraphs", flag), "and --paragraphs splits lines into sentences")
        for flag in ("--sample", "--prefix=column", "--alignments=a")
    ),
    (("--candidates=4",), "chooses from. Add --rerank=mbr, or leave it out."),
    (("--rerank=mbr", "--candidates=5"), "must be at most --beam_size=4"),
    (("--rerank=mbr", "--n_best=3", "--candidates=2"), "at least --n_best=3"),
)


@pytest.mark.slow
def test_samples_with_all_options_depend_on_the_seed_and_the_line(translate_short):
    """Sampling, prefixes, reranking and the options of the search together."""
    options = (
        "--sample",
        "--temperature=1.5",
        "--top_k=200",
        "--top_p=0.99",
        "--seed=8",
        "--length_penalty=power",
        "--min_length=2",
        "--no_repeat_ngram=2",
        "--suppress_unknown",
        "--prefix=column",
        "--scores",
        "--extra_length=9",
    )
    lines = [b"a b c\tc b", b"", b"d e\te", b"f g h"]
    run = functools.partial(translate_short, *options)
    several = run("--n_best=3", stdin=b"\n".join(lines))
    assert (several.status, several.stderr) == (0, "")
    rows = [line.split("\t") for line in several.lines]
    assert [row[0] for row in rows] == list("1112333444")
    texts = {number: [row[3] for row in rows if row[0] == number] for number in "134"}
    assert all(text.startswith("c b") for text in texts["1"])
    assert all(text.startswith("e") for text in texts["3"])
    assert len(set(texts["4"])) == 3
    # Other lines at a time, and a single sample, which is the first of several.
    one = run("--lines_at_once=1", stdin=b"\n".join(lines))
    first = [texts["1"][0], "", texts["3"][0], texts["4"][0]]
    assert [line.split("\t")[2] for line in one.lines] == first
    # The last of several --seed flags counts.
    best = run("--seed=9", "--rerank=mbr", "--candidates=3", stdin=b"\n".join(lines))
    assert best.lines[3].split("\t")[2] not in texts["4"]


def test_a_prefix_that_is_too_long_is_refused(translate_short):
    done = translate_short("--prefix=column", stdin=b"a b\na b c\t" + b"a b c " * 9)
    assert (done.status, done.output) == (2, b"")
    assert "error: The prefix of line 2 has" in done.stderr


def test_prefixes_are_measured_before_any_search(short_run, monkeypatch):
    run = Run(short_run.model_dir.path)
    monkeypatch.setattr(
        translator.Translator, "_search_batch", lambda *_: pytest.fail("searched")
    )
    with pytest.raises(UserError, match=r"line 9 has \d\d tokens, .* has at most 7\."):
        list(run.translate(["a b"] * 9, prefixes=[""] * 8 + ["a b c " * 20]))


def test_bad_flags_are_refused(translate_short):
    for arguments, message in REFUSED:
        done = translate_short(*arguments, stdin=b"a b c\n")
        assert (done.status, done.output) == (2, b""), (arguments, done.stderr)
        assert done.stderr.startswith("error: "), (arguments, done.stderr)
        assert message in done.stderr, (arguments, done.stderr)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    done = run_program("translate", f"--model_dir={tmp_path}", stdin=b"a\n")
    assert done.status == 2
    assert done.stderr.startswith(f"error: {tmp_path} is not a model directory")


@pytest.fixture
def texts_of(short_run):
    """Function of lines and options, which returns translations from Python."""
    run = Run(short_run.model_dir.path)

    def translate(lines, **options):
        found = run.translate(lines, beam_size=1, **options)
        return [line.text for line in found]

    return translate


@pytest.mark.slow
def test_paragraphs_keep_blank_lines_and_spacing(translate_short, texts_of):
    text = b"a b!  C dd. E\n\n \t \n  a b! \n"
    done = translate_short("--beam_size=1", "--paragraphs", stdin=text)
    assert (done.status, done.stderr) == (0, "")
    one, two, three = texts_of(["a b!", "C dd.", "E"])
    assert done.lines == [f"{one}  {two} {three}", "", " \t ", f"  {one} "]
    assert texts_of(text.splitlines(), paragraphs=True) == done.lines
    with pytest.raises(UserError, match=r"Leave --n_best out\. Received: 2"):
        texts_of(["a"], n_best=2, paragraphs=True)


@pytest.mark.slow
def test_a_tag_precedes_each_sentence(translate_short, texts_of):
    # Any piece that is a symbol of its own will do: here a letter.
    tagged = texts_of(["c d", "", "e"], target_tag="b")
    assert tagged == texts_of(["b c d", "", "b e"])
    assert tagged[1] == ""
    flags = "--beam_size=1", "--target_tag=b", "--paragraphs"
    both = translate_short(*flags, stdin=b"c dd.  E\n")
    one, two = texts_of(["b c dd.", "b E"])
    assert both.lines == [f"{one}  {two}"]
    refused = translate_short("--target_tag=<2de>", stdin=b"a\n")
    assert refused.status == 2
    assert "splits '<2de>' (--target_tag) into" in refused.stderr
    assert "--user_symbols=<2de>" in refused.stderr
    spaced = translate_short("--target_tag=a b", stdin=b"a\n")
    assert "--target_tag must have no space. Received: 'a b'" in spaced.stderr


def test_protected_spans_are_kept_by_a_model_that_never_saw_them(translate, tmp_path):
    links = tmp_path / "links"
    stdin = b"a {x} b <1>c</1>\na b c\n%s\n\nj i https://a.org/b h g\n"
    flags = "--beam_size=2", "--n_best=2"
    done = translate(*flags, "--protect", f"--alignments={links}", stdin=stdin)
    plain = translate(*flags, stdin=b"a b c\na b c\n\n\nj i h g\n")
    assert (done.status, done.stderr) == (0, "")
    for line, without in zip(done.lines, plain.lines, strict=True):
        number, text = line.split("\t")
        expected = {
            "1": ["{x}", "<1>", "</1>"],
            "3": ["%s"],
            "5": ["https://a.org/b"],
        }
        for span in expected.get(number, []):
            assert text.count(span) == 1
            text = text.replace(span, " ")
        assert [number, *text.split()] == without.split()
    # Words of the whole line and of its whole translation.
    assert len(links.read_text("utf-8").splitlines()[0].split()) == 4


def test_samples_of_protected_lines_are_those_of_the_rest(translate):
    flags = "--sample", "--seed=3", "--n_best=2"
    done = translate(*flags, "--protect", stdin=b"a b c\nj {x} i h g\n")
    plain = translate(*flags, stdin=b"a b c\nj i h g\n")
    assert [line.replace("{x}", "").split() for line in done.lines] == [
        line.split() for line in plain.lines
    ]


def test_protection_and_prefixes_exclude_each_other(translate):
    done = translate("--protect", "--prefix=column", stdin=b"a\tb\n")
    assert done.status != 0
    assert "--protect may translate a line without its placeholders" in done.stderr


def test_terms_of_a_glossary_are_in_the_translations(translate, tmp_path):
    """The model writes letters in reverse order; "i" is none of the others' terms."""
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("b\ti\nc d\th f\n", "utf-8")
    stdin = b"a b c\nj i h g\n\na c d e {b}\n"
    flags = "--beam_size=2", f"--glossary={glossary}", "--protect"
    done = translate(*flags, stdin=stdin)
    plain = translate("--beam_size=2", stdin=stdin)
    assert (done.status, done.stderr) == (0, "")
    assert "i" in done.lines[0].split()
    assert "h f" in done.lines[3] and done.lines[3].count("{b}") == 1
    # Lines without terms are translated as without a glossary.
    assert done.lines[1:3] == plain.lines[1:3]


def test_terms_that_do_not_fit_are_reported(translate, tmp_path):
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("b\ti\nc\tf g h j\n", "utf-8")
    flags = "--beam_size=2", f"--glossary={glossary}", "--extra_length=0"
    done = translate(*flags, stdin=b"a b c\n")
    assert done.stderr == "warning: line 1 lacks terms of the glossary: f g h j\n"
    assert "i" in done.lines[0].split()


def test_glossaries_that_cannot_be_used_are_refused(translate, tmp_path):
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("b i\n", "utf-8")
    done = translate(f"--glossary={glossary}", stdin=b"a\n")
    assert done.status != 0
    assert "must have a source term, a tab and a target term" in done.stderr
    done = translate(f"--glossary={glossary}", "--sample", stdin=b"a\n")
    assert done.status != 0
    assert "--glossary forces terms in a search, and --sample draws" in done.stderr
