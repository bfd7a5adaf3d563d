"""Guided alignment in training programs: what it learns, what is refused."""

import gzip
import re

import numpy as np
import pytest

from t2t_keras import Run, UserError, fit_arguments, read_settings
from t2t_keras.files.logs import log_to
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import load_trained
from t2t_keras.runs.training import training_run
from t2t_keras.runs.training.prepared_run import prepare_run
from t2t_keras.runs.translation.word_aligner import WordAligner
from t2t_keras.text.word_numbers import word_numbers
from tests.in_process import run_program
from tests.runs.small_runs import SETTINGS, write_corpus

PAIRS = 100


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Text whose translations are reversed, and the links of its words."""
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, PAIRS)
    lengths = [len(x.split()) for x in (folder / "train.en").read_text().splitlines()]
    links = [" ".join(f"{i}-{n - 1 - i}" for i in range(n)) for n in lengths]
    (folder / "train.align").write_text("".join(f"{line}\n" for line in links))
    return folder


def flags_of(corpus, *changed):
    return [
        f"--train_source={corpus}/train.en",
        f"--train_target={corpus}/train.de",
        *SETTINGS,
        f"--train_alignments={corpus}/train.align",
        "--guided_alignment=0.5",
        "--train_steps=4",
        "--save_steps=2",
        "--noexport_at_end",
        *changed,
    ]


def settings_of(folder, corpus, *changed):
    (folder / "flags").write_text("\n".join(flags_of(corpus, *changed)))
    return read_settings(folder / "flags")


@pytest.mark.slow
def test_the_first_head_learns_the_links_it_is_given(corpus, tmp_path):
    pairs = [
        [x.split() for x in (corpus / f"train.{side}").read_text().splitlines()]
        for side in ("en", "de")
    ]
    texts = [(" ".join(a), " ".join(b)) for a, b in zip(*pairs, strict=True)]
    run = ModelDir(tmp_path / "run")
    flags = ("--train_steps=60", "--d_model=32", "--guided_alignment=5")
    training_run.train(settings_of(tmp_path, corpus, *flags), run)
    links = Run(run.path).align(texts)
    right = [
        i + j == len(words) - 1
        for words, own in zip(pairs[0], links, strict=True)
        for i, j in own
    ]
    # Without guidance it is below 0.4.
    assert np.mean(right) > 0.55
    # Without --alignment_heads the links are of the head that was trained.
    trained = load_trained(run, "latest")
    assert WordAligner(trained, "1:1").align(texts) == links
    assert WordAligner(trained, "1").align(texts) != links


def test_links_are_of_their_pairs_after_filters_and_limits(tmp_path):
    """Lines are left out for four reasons; each of the others has a link of its own."""
    words = "bado feno gilt dor kust".split()
    lines, links = [], []
    for number in range(20):
        line = [words[number % 5], words[number // 5], *words[: 1 + number % 4]]
        lines.append(" ".join(line))
        links.append(f"{number % len(line)}-{number % 3}")
    lines[3], lines[8], lines[11] = "", lines[7], " ".join(words * 9)
    targets = [" ".join(line.split()[::-1]) for line in lines]
    links[3] = ""
    for name, column in (("en", lines), ("de", targets), ("align", links)):
        text = "".join(f"{line}\n" for line in column)
        (tmp_path / f"train.{name}").write_text(text)
    config = settings_of(
        tmp_path,
        tmp_path,
        "--filter=copied,duplicates",
        "--max_length=60",
        f"--mixture={tmp_path}/train.de:{tmp_path}/train.en:1",
        "--vocabulary_size=280",
    )
    log = []
    with log_to(log.append):
        data = prepare_run(config, ModelDir(tmp_path / "run"))
    kept = [i for i in range(20) if lines[i] != targets[i] and i not in (3, 8, 11)]
    assert 10 < len(kept) < 17
    assert len(data.train) == 2 * len(kept)
    assert any("word alignments of 19 pairs" in line for line in log)
    for index, number in enumerate(kept):
        sides = data.train.pair(index)
        flat, _ = data.train.links.gather(np.array([index]))
        source, target = (
            [word_numbers(data.vocabulary.pieces(side[:-1]))[i] for i in flat[own::2]]
            for own, side in enumerate(sides)
        )
        expected = tuple(map(int, links[number].split("-")))
        assert set(zip(source, target, strict=True)) == {expected}
    rest = np.arange(len(kept), len(data.train))
    assert not data.train.links.gather(rest)[1].any()


@pytest.mark.slow
@pytest.mark.usefixtures("fake_stepper")
def test_a_run_does_not_resume_with_other_links(corpus, tmp_path):
    copy = tmp_path / "align"
    copy.write_text((corpus / "train.align").read_text())
    folders = tmp_path, corpus
    flags = (f"--train_alignments={copy}",)
    model_dir = ModelDir(tmp_path / "run")
    training_run.train(settings_of(*folders, *flags), model_dir)
    more = settings_of(*folders, *flags, "--train_steps=6")
    lines = copy.read_text().splitlines(keepends=True)
    copy.write_text("".join(["\n", *lines[1:]]))
    with pytest.raises(UserError, match=r"with .*align is not the training text that"):
        training_run.train(more, model_dir)
    other = settings_of(*folders, *flags, "--train_steps=6", "--guided_alignment=0.6")
    with pytest.raises(UserError, match="--guided_alignment"):
        training_run.train(other, model_dir)
    (tmp_path / "links.gz").write_bytes(gzip.compress("".join(lines).encode()))
    flags = f"--train_alignments={tmp_path}/links.gz", "--train_steps=6"
    training_run.train(settings_of(*folders, *flags), model_dir)
    assert model_dir.find_checkpoint("latest").name == "step-6"


@pytest.mark.slow
@pytest.mark.usefixtures("fake_stepper")
def test_its_flagfile_trains_without_it(corpus, tmp_path):
    config = settings_of(tmp_path, corpus)
    parent = ModelDir(tmp_path / "parent")
    training_run.train(config, parent)
    # On other text, from its weights; without alignments, or on records.
    none = {"train_alignments": (), "guided_alignment": 0}
    child = read_settings(parent.flagfile, init_from=str(parent.path), **none)
    training_run.train(child, ModelDir(tmp_path / "child"))
    assert read_settings(parent.flagfile, records="r", train_source=(), **none)
    flags = "--guided_alignment=0", "--train_alignments="
    done = run_program(
        "train", f"--flagfile={parent.flagfile}", *flags, "--list_weights"
    )
    assert done.status == 0, done.stderr
    # `prepare` ignores both, also when it resumes.
    for _ in range(2):
        done = run_program(
            "prepare",
            f"--flagfile={parent.flagfile}",
            f"--output={tmp_path}/records",
            "--workers=1",
        )
        assert done.status == 0, done.stderr
    batch = next(iter(Run(parent.path).batches()))
    assert batch["alignment"].numpy().any()
    x, _, _ = fit_arguments(batch)
    assert x.keys() == {"encoder_input_tokens", "decoder_input_tokens"}
    # Several files, one of them compressed.
    lines = (corpus / "train.align").read_bytes().splitlines(keepends=True)
    (tmp_path / "a.align").write_bytes(b"".join(lines[:30]))
    (tmp_path / "b.align.gz").write_bytes(gzip.compress(b"".join(lines[30:])))
    files = [tmp_path / name for name in ("a.align", "b.align.gz")]
    resumed = read_settings(parent.flagfile, train_alignments=files)
    links = [
        from_settings.read_links(each.data, from_settings.build_corpus(each.data))
        for each in (resumed, config)
    ]
    np.testing.assert_array_equal(links[0].tokens, links[1].tokens)
    np.testing.assert_array_equal(links[0].offsets, links[1].offsets)


REFUSED = (
    (("--train_alignments=",), "--guided_alignment and --train_alignments belong"),
    (("--train_source=", "--dataset=grammar_ende"), "--train_alignments is for text"),
    (("--records=r",), "--train_alignments is for text"),
    (("--target_language=tree",), "--train_alignments is for translation"),
    (("--train_alignments=none",), "none does not exist"),
    (("--train_alignments={0}/train.en",), "Line 1 of .* must have links"),
    (("--train_alignments={0}/long",), r"Line 101 is in .*long \(--train_alignments\)"),
    (("--train_alignments={0}/short",), "Line 3 is in the text only"),
    (("--train_alignments={0}/out",), "Line 2 of .*out .* has the link 0-9"),
)


def test_bad_input_is_refused_and_nothing_is_written(corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = (corpus / "train.align").read_text().splitlines(keepends=True)
    for name, changed in (
        ("long", [*lines, "\n"]),
        ("short", lines[:2]),
        ("out", [lines[0], "0-9\n", *lines[2:]]),
    ):
        (corpus / name).write_text("".join(changed))
    for flags, message in REFUSED:
        flags = [flag.format(corpus) for flag in flags]
        done = run_program("train", *flags_of(corpus, *flags), "--model_dir=run")
        assert (done.status, done.output) == (2, b""), (flags, done)
        assert re.search(message, done.stderr), done.stderr
        assert list(tmp_path.iterdir()) == []
    without = [x for x in flags_of(corpus) if not x.startswith("--guided")]
    done = run_program("train", *without, "--model_dir=run")
    assert "--guided_alignment and --train_alignments belong" in done.stderr
