"""The report program, on a run of the train program."""

from pathlib import Path

from t2t_keras.runs.model_dir import ModelDir
from tests.in_process import run_program
from tests.runs.replace_settings import replace_settings


def test_a_report_of_a_real_run(own_short_run: ModelDir, short_run) -> None:
    done = run_program("report", own_short_run.path)
    assert done.status == 0, done.stderr
    html, markdown = (
        own_short_run.path / "report" / f"report.{end}" for end in ("html", "md")
    )
    assert done.lines == [str(html), str(markdown)]
    text = html.read_text(encoding="utf-8")
    source, target = short_run.held_out[0]
    assert source in text and target in text
    scores = own_short_run.run_card()["scores"]["test averaged/step-60"]
    assert f"{scores['bleu']:.2f}" in text
    # The report must not contain absolute paths of the corpus.
    corpus_path = own_short_run.config().data.test_source[0]
    folder, name = corpus_path.rsplit("/", 1)
    assert folder not in text.replace(str(own_short_run.path), "")
    assert name in text


def test_without_its_corpus_a_report_lacks_only_the_sentences(
    own_short_run, tmp_path
) -> None:
    text = own_short_run.flagfile.read_text()
    name = own_short_run.config().data.test_source[0]
    own_short_run.flagfile.write_text(text.replace(name, str(tmp_path / "gone.txt")))
    done = run_program("report", own_short_run.path, f"--output={tmp_path / 'out'}")
    assert done.status == 0
    assert "warning: " in done.stderr and "no test set" in done.stderr
    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "The test set itself is not available here." in page


def test_a_run_that_is_scored_on_dev_shows_its_dev_set(own_short_run) -> None:
    config = own_short_run.config()
    config = replace_settings(config, "training", score_split="dev")
    config = replace_settings(config, "data", test_source=(), test_target=())
    own_short_run.write_config(config, "")
    dev = Path(config.data.dev_source[0])
    translated = own_short_run.translations / "dev-averaged-step-60.txt"
    lines = dev.read_text().splitlines()
    translated.write_text("\n".join([*("it" for _ in lines), ""]))
    done = run_program("report", own_short_run.path)
    assert (done.status, done.stderr) == (0, "")
    page = (own_short_run.path / "report/report.md").read_text(encoding="utf-8")
    assert lines[0] in page


def test_a_folder_that_is_no_run_is_refused() -> None:
    done = run_program("report", "nowhere")
    assert done.status == 2
    assert "error: nowhere is not a model directory" in done.stderr
