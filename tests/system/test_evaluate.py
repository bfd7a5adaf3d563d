"""The evaluate program: printed scores, saved translations, and refused flags."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.evaluation.comparison import score_translations
from t2t_keras.runs.translation import scoring
from t2t_keras.settings import program
from tests.in_process import run_program
from tests.runs.replace_settings import replace_settings


@pytest.fixture
def evaluate(own_run):
    return make_evaluate(own_run)


@pytest.fixture
def evaluate_short(own_short_run):
    return make_evaluate(own_short_run)


def make_evaluate(run):
    flags = (f"--model_dir={run.path}", "--beam_size=1")
    return lambda *arguments: run_program("evaluate", *flags, *arguments)


def test_the_test_split_of_the_run_by_default(evaluate, own_run, reverse_run):
    done = evaluate("--checkpoint=latest")
    assert done.status == 0
    lines = done.lines
    weights = "checkpoints/step-500"
    assert lines[0].startswith(f"test: 100 sentences, {weights}, beam 1, alpha 0.6, ")
    written = (
        # The run's settings have a beam of 4.
        (own_run.translations / "test-checkpoints-step-500-beam-1-alpha-0.6.txt")
        .read_text()
        .splitlines()
    )
    references = [target for _, target in reverse_run.held_out[:100]]
    found = corpus_scores(written, references)
    # A score is only comparable with sacreBLEU's signature, which ends in its version.
    assert lines[1] == f"  BLEU {found.bleu:.2f}  {found.bleu_signature}"
    assert "|tok:13a|smooth:exp|version:" in lines[1]
    assert lines[2] == f"  chrF {found.chrf:.2f}  {found.chrf_signature}"
    scores = own_run.run_card()["scores"]
    card = scores["test checkpoints/step-500 beam 1 alpha 0.6"]
    assert 1 < card["perplexity"] < 1.5
    assert lines[3] == f"  perplexity per subword {card['perplexity']:.3f}"
    assert card["decoding"]["beam_size"] == 1


def test_a_run_without_a_test_set_and_what_it_proposes(evaluate, own_run):
    config = own_run.config()
    assert scoring.evaluate_flags(config) == ""
    config = replace_settings(config, "data", test_source=(), test_target=())
    own_run.write_config(config, "")
    proposed = scoring.evaluate_flags(config)
    assert "--source=FILE" in proposed and "--reference=FILE" in proposed
    done = evaluate()
    assert (done.status, done.output) == (2, b"")
    assert f"{own_run.path} has no test set" in done.stderr
    assert "--source" in done.stderr and "--reference" in done.stderr


def test_other_files_are_scored(evaluate, own_run, tmp_path):
    both = tmp_path / "both.tsv.gz"
    both.write_bytes(gzip.compress(b"a b c\tc b a\nj i h g\tg h i x\n"))
    before = own_run.run_card()
    output = tmp_path / "out.txt"
    done = evaluate(f"--source={both}", f"--output={output}", "--tokenize=char")
    assert done.status == 0
    assert output.read_text() == "c b a\ng h i j\n"
    found = corpus_scores(["c b a", "g h i j"], ["c b a", "g h i x"], "char")
    assert 0 < found.bleu < 100
    assert done.lines[1] == f"  BLEU {found.bleu:.2f}  {found.bleu_signature}"
    # Scores of other files are not kept in the run card.
    assert own_run.run_card() == before


def test_every_line_is_scored_and_written(evaluate, tmp_path):
    """Two of five pairs have an empty side; one line is not UTF-8."""
    source, reference = tmp_path / "in", tmp_path / "ref"
    source.write_bytes(b"a b c d\n\nj i h g\nd e f\n\xff\xfe\n")
    reference.write_bytes(b"d c b a\nx y\ng h i j\n\nz\n")
    output = tmp_path / "out.txt"
    done = evaluate(
        f"--source={source}", f"--reference={reference}", f"--output={output}"
    )
    written = output.read_text().split("\n")
    assert len(written) == 6
    assert written[:4] == ["d c b a", "", "g h i j", "f e d"]
    assert done.lines[0].startswith("test: 5 sentences")
    references = ["d c b a", "x y", "g h i j", "", "z"]
    bleu = sacrebleu.corpus_bleu(written[:5], [references]).score
    assert done.lines[1].startswith(f"  BLEU {bleu:.2f}  ")
    assert "without 2 pairs" in done.lines[3]
    assert "2 of 5 lines have no text" in done.stderr
    assert "1 of 5 lines are not valid UTF-8" in done.stderr


@pytest.mark.slow
def test_the_dev_split_by_the_tokenizer_of_the_run(evaluate_short, own_short_run):
    own_short_run.update_run_card({"bleu_tokenizer": "char"})
    done = evaluate_short("--split=dev")
    assert done.lines[0].startswith("dev: 10 sentences")
    scores = own_short_run.run_card()["scores"]
    name = "dev averaged/step-60 beam 1 alpha 0.6"
    assert set(scores) == {name, "test averaged/step-60"}
    file_name = f"{name.replace(' ', '-').replace('/', '-')}.txt"
    written = (own_short_run.translations / file_name).read_text().splitlines()
    dev_target = Path(own_short_run.config().data.dev_target[0])
    found = corpus_scores(written, dev_target.read_text().splitlines(), "char")
    assert done.lines[1] == f"  BLEU {found.bleu:.2f}  {found.bleu_signature}"
    assert scores[name]["bleu"] == found.bleu > 0


REFUSED = (
    (("--source=a.txt",), "--source and --reference belong together; one is missin"),
    (("--source=no.txt", "--reference=no.txt"), "The file no.txt does not exist."),
    (
        ("--source=a.mrg",),
        "a.mrg holds trees, but this model is not a parser",
    ),
    (("--source=a.tsv,b.mrg.gz",), "b.mrg.gz holds trees, but this model is not a"),
    (
        ("--cutoff_length=9",),
        "--cutoff_length is for a parser's scores, but this mod",
    ),
    (("--checkpoint=6",), "There is no checkpoint '6' in"),
)


def test_bad_flags_are_refused(evaluate_short):
    for arguments, message in REFUSED:
        done = evaluate_short(*arguments)
        assert (done.status, done.output) == (2, b""), (arguments, done.stderr)
        assert done.stderr.startswith("error: "), (arguments, done.stderr)
        assert message in done.stderr, (arguments, done.stderr)


def test_unequal_files_are_refused(evaluate_short, tmp_path):
    source, reference = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"a b c\nb\n")
    reference.write_bytes(b"c b a\n")
    done = evaluate_short(f"--source={source}", f"--reference={reference}")
    assert done.status == 2
    assert f"{source} has 2 lines, but {reference} has 1" in done.stderr


# --- Files, without a model


@pytest.fixture
def texts(tmp_path):
    """Two systems and a reference."""
    lines = {
        "a.de": ("Das Haus ist rot.", "Er ging heute nach Hause."),
        "b.de": ("Ein Haus ist rot.", "Er ging nach Hause."),
        "test.de": ("Ein Haus ist rot.", "Er ging heute nach Haus."),
    }
    for name, texts in lines.items():
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    return lines, [tmp_path / name for name in lines]


def test_files_are_scored_without_tensorflow(texts):
    lines, (one, other, reference) = texts
    arguments = [
        f"--hypotheses={one}",
        f"--hypotheses={other}",
        f"--reference={reference}",
        "--paired_test=randomization",
        "--resamples=9",
        "--confidence",
    ]
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['evaluate', *{arguments}]\n"
        "try:\n"
        "    runpy.run_module('t2t_keras.evaluate', run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    sys.exit(end.code or 7 * bool({'tensorflow', 'keras'} & {*sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    expected = score_translations(
        {str(one): lines["a.de"], str(other): lines["b.de"]},
        lines["test.de"],
        language="de",
        paired_test="randomization",
        resamples=9,
        confidence=True,
    )
    assert done.stdout == f"{expected.describe()}\n"
    assert "p = " in done.stdout and " ± " in done.stdout


def test_scores_of_files_for_scripts(texts):
    lines, (one, _, reference) = texts
    done = run_program(
        "evaluate",
        f"--hypotheses={one}",
        f"--reference={reference}",
        "--json",
        "--metrics=chrf++,t2t_bleu",
        "--tokenize=char",
        "--lowercase",
        "--target_language=fr",
        "--ascii_quotes",
        f"--extra_reference={one}",
    )
    assert (done.status, done.stderr) == (0, "")
    expected = score_translations(
        {str(one): lines["a.de"]},
        lines["test.de"],
        extra_references=[lines["a.de"]],
        metrics=("chrf++", "t2t_bleu"),
        language="fr",
        lowercase=True,
        ascii_quotes=True,
    )
    assert json.loads(done.stdout) == expected.as_dict()


def test_flags_of_the_other_kind_are_refused(texts, monkeypatch):
    def fail(**_):
        raise AssertionError("TensorFlow")

    monkeypatch.setattr(program, "_import_tensorflow", fail)
    _, (one, other, reference) = texts
    files = (f"--hypotheses={one}", f"--reference={reference}")
    for arguments, message in (
        ((*files, "--model_dir=m"), "--model_dir is for scores of a model, but --hyp"),
        (
            (*files, "--min_length=2"),
            "--min_length is for scores of a model, but --hyp",
        ),
        (("--model_dir=m", "--json"), "--json is for --hypotheses: the scores of a m"),
        (("--model_dir=m", "--paired_test=bootstrap"), "--paired_test is for --hypo"),
        ((*files, "--tokenize=13"), "Did you mean 13a?"),
        ((*files, "--paired_test=bootstrap"), "needs two or more. Received: 1"),
        ((f"--hypotheses={other}",), "--reference is required with --hypotheses"),
    ):
        done = run_program("evaluate", *arguments)
        assert (done.status, done.output) == (2, b""), (arguments, done.stderr)
        assert message in done.stderr, (arguments, done.stderr)
