"""The visualize program: pictures from a run or an export, and refused flags."""

import json
import re

import pytest

from tests.forked import REPOSITORY, run_python
from tests.in_process import run_program


@pytest.fixture
def visualize(own_run):
    return make_visualize(own_run)


@pytest.fixture
def visualize_short(own_short_run):
    return make_visualize(own_short_run)


def make_visualize(run):
    flags = (f"--model_dir={run.path}", "--beam_size=1")
    return lambda *arguments: run_program("visualize", *flags, *arguments)


def page_data(path) -> dict:
    text = path.read_text()
    return json.loads(re.search(r'id="data">(.*?)</script>', text)[1])


def test_a_sentence_is_translated_and_drawn(visualize, own_run):
    done = visualize("--sentence=a b c d", "--sentence=j i h", "--what=page")
    assert (done.status, done.stderr) == (0, "")
    page = own_run.path / "pictures" / "attention.html"
    assert done.lines == [str(page)]
    assert page_data(page)["texts"] == [["a b c d", "d c b a"], ["j i h", "h i j"]]


def test_a_given_translation_and_chosen_maps(visualize_short, tmp_path):
    done = visualize_short(
        "--sentence=a b c",
        "--translation=c a",
        "--kind=memory",
        "--heads=1,3",
        "--words=c",
        "--format=png",
        "--merge_subwords",
        f"--output={tmp_path / 'out'}",
    )
    assert done.status == 0
    names = ["lines-memory-layer1.png", "heat-maps-memory.png", "attention.html"]
    assert done.lines == [str(tmp_path / "out" / name) for name in names]
    assert page_data(tmp_path / "out" / names[2])["texts"] == [["a b c", "c a"]]


def test_an_export_shows_the_same_page(visualize, own_run, tmp_path):
    flags = ("--sentence=e f g h", "--what=page")
    assert visualize(*flags).status == 0
    exported = run_program(
        "visualize", f"--export_dir={own_run.path / 'export'}", *flags,
        f"--output={tmp_path}",
    )  # fmt: skip
    assert exported.status == 0
    one = page_data(own_run.path / "pictures" / "attention.html")
    other = page_data(tmp_path / "attention.html")
    assert one["texts"] == other["texts"] == [["e f g h", "h g f e"]]
    for unit in one["units"]:
        for kind in one["kinds"]:
            sentences = [each["sentences"][0][unit][kind] for each in (one, other)]
            assert sentences[0]["queries"] == sentences[1]["queries"]
            # In thousandths; the last digit may be rounded either way.
            weights = [each["weights"] for each in sentences]
            assert max(abs(a - b) for a, b in zip(*weights, strict=True)) <= 1


def test_the_dev_set_is_summarized(visualize, own_run):
    done = visualize("--sentences=40")
    assert done.status == 0
    folder = own_run.path / "pictures"
    assert done.lines == [str(folder / f"heads.{end}") for end in ("tsv", "md", "svg")]
    assert "run, averaged/step-500, 40 sentences" in (folder / "heads.md").read_text()
    # One layer of four heads, with three kinds of attention.
    assert len((folder / "heads.tsv").read_text().splitlines()) == 1 + 12


def test_a_file_is_summarized_with_and_without_translations(visualize, tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text("a b c\n\nj i h g\n")
    target.write_text("c b a\n\ng h i j\n")
    tables = []
    for arguments in ([], [f"--input_translation={target}"]):
        output = f"--output={tmp_path / 'pictures'}"
        done = visualize(f"--input={source}", output, *arguments)
        assert (done.status, done.stderr) == (0, "")
        tables.append((tmp_path / "pictures" / "heads.tsv").read_text())
    assert tables[0] == tables[1]


REFUSED = (
    (("--what=lines",), "--what=lines needs a --sentence to draw."),
    (("--what=films",), "--what must be one of lines, heat_maps, page, summary. Rec"),
    (("--kind=cross",), "--kind must be one of encoder, decoder, memory. Received"),
    (("--kind=",), "--kind must be some of encoder, decoder, memory, with commas"),
    (
        ("--sentence=a", "--translation=a", "--translation=b"),
        "Give a --translation for each --sentence, or none. Received: 2 for 1",
    ),
    (("--sentence=a", "--layer=2"), "There is no layer 2: the model has 1"),
    (
        ("--sentence=a", "--translation=a", "--heads=5"),
        "There is no head 5: a layer has 4",
    ),
    (
        ("--sentence=a", "--translation=a", "--words=q"),
        "There is no word 'q' to draw lines from.",
    ),
    (
        ("--sentence=a", "--heads=one"),
        "--heads must be a whole number. Received: 'one'",
    ),
    (("--export_dir=a",), "Give either --model_dir or --export_dir."),
    (("--input=no.txt",), "There is no file no.txt"),
)


@pytest.mark.slow
def test_bad_flags_are_refused(visualize_short, own_short_run):
    pictures = own_short_run.path / "pictures"
    for arguments, message in REFUSED:
        done = visualize_short(*arguments)
        assert (done.status, done.output) == (2, b""), (arguments, done.stderr)
        assert done.stderr.startswith("error: "), (arguments, done.stderr)
        assert message in done.stderr, (arguments, done.stderr)
        assert not list(pictures.glob("*.svg")), arguments


def test_an_export_has_no_dev_set(reverse_run):
    done = run_program("visualize", f"--export_dir={reverse_run.model_dir.export}")
    assert done.status == 2
    assert "An export has no dev set: give --input" in done.stderr


def test_unequal_files_and_other_encodings_are_refused(visualize_short, tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text("a\nb\n")
    target.write_text("a\n")
    done = visualize_short(f"--input={source}", f"--input_translation={target}")
    assert done.status == 2
    assert f"{source} has 2 lines, but {target} has 1" in done.stderr
    source.write_bytes(b"\xff\n\xff\n")
    done = visualize_short(f"--input={source}")
    assert f"{source} is not text in UTF-8: 2 of 2 lines" in done.stderr


def test_a_sentence_that_is_too_long_gives_a_warning(visualize_short):
    done = visualize_short(
        f"--sentence={'a ' * 600}",
        "--translation=a",
        "--what=heat_maps",
        "--kind=memory",
    )
    assert done.status == 0
    assert "warning: 1 sentences or translations are too long" in done.stderr


@pytest.mark.slow
def test_the_notebook_code_of_the_page_runs(own_short_run, tmp_path):
    text = (REPOSITORY / "docs/pictures.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    sentence = "The teacher gave the child three red apples because it was hungry."
    for old, new in (
        (sentence, "a b c d"),
        ('words=["it"]', 'words=["b"]'),
        ("layer=2", "layer=1"),
        ("runs/tiny", str(own_short_run.path)),
        # Only a notebook has IPython.
        ("from IPython.display import IFrame", "IFrame = print"),
    ):
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    done = run_python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"attention.html 1100 700\n"
    assert page_data(tmp_path / "attention.html")["texts"][0][0] == "a b c d"
