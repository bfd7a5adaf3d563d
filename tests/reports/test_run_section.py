"""Section of a report about one run."""

from t2t_keras.reports.blocks import (
    Command,
    Details,
    Figure,
    Heading,
    Missing,
    Paragraph,
    Sample,
    Table,
)
from t2t_keras.reports.run_section import run_blocks
from t2t_keras.reports.run_summary import read_run
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.training_config import TrainingConfig
from tests.reports.runs import build_score, write_run


def select_kind(blocks, kind):
    return [block for block in blocks if isinstance(block, kind)]


def no_texts(_) -> None:
    return None


def test_the_section_of_a_finished_run(tmp_path) -> None:
    run = write_run(tmp_path / "run")
    blocks = run_blocks(run, "run-1", no_texts)
    assert blocks[0] == Heading(f"The run {tmp_path / 'run'}")
    summary = blocks[1]
    assert isinstance(summary, Paragraph)
    assert "2 layers of width 16 with 2 heads" in summary.text
    assert "40 of 40 steps" in summary.text
    scores, data = select_kind(blocks, Table)
    assert scores.rows[0].cells == (
        "test averaged/step-40",
        "1,234",
        "27.64",
        "28.15",
        "51.50",
        "4.567",
        "beam 4, alpha 0.6",
    )
    signatures = select_kind(blocks, Paragraph)[1].text
    for words in ("mean of 3 checkpoints, steps 20, 30, 40", "BLEU|tok:13a", "chrF2"):
        assert words in signatures
    values = {row.cells[0]: row.cells[1] for row in data.rows}
    assert values["sentence pairs"] == "4,500"
    assert values["padding"] == "12.5%"
    assert values["source tokens"] == Missing("unknown")
    assert values["tensorflow"] == "2.21.0"
    (figure,) = select_kind(blocks, Figure)
    assert figure.name == "run-1-curves"
    for title in ("Loss", "BLEU", "Learning rate", "Target tokens"):
        assert title in figure.alt
    (details,) = select_kind(blocks, Details)
    (settings,) = select_kind(details.blocks, Table)
    assert {row.cells[0] for row in settings.rows if row.ours} == {
        "--dataset",
        "--num_layers",
        "--d_model",
        "--d_ff",
        "--num_heads",
        "--train_steps",
    }


def test_the_losses_say_what_sets_them_apart(tmp_path) -> None:
    def words(name: str, rate: float) -> str:
        config = ExperimentConfig(
            model=ModelConfig(dropout_rate=rate),
            training=TrainingConfig(label_smoothing=rate),
        )
        blocks = run_blocks(write_run(tmp_path / name, config=config), "r", no_texts)
        (figure,) = select_kind(blocks, Figure)
        texts = [each.text for each in select_kind(blocks, Paragraph)]
        return figure.svg + " ".join(texts)

    shown = words("with", 0.1)
    assert "train, with label smoothing and dropout" in shown
    tied = TrainingConfig(r_drop=5.0)
    run = write_run(tmp_path / "tied", config=ExperimentConfig(training=tied))
    blocks = run_blocks(run, "r", no_texts)
    assert "dropout and R-Drop" in select_kind(blocks, Figure)[0].svg
    assert "dev, without" in shown and "not their heights" in shown
    plain = words("plain", 0.0)
    assert "without" not in plain and "heights" not in plain


def test_translations_are_shown_with_their_sources(tmp_path) -> None:
    run = write_run(tmp_path / "run")
    texts = ["one", "two", "three"], ["Eins", "Zwei", "Drei"]
    samples = select_kind(run_blocks(run, "r", lambda _: texts), Sample)
    assert samples == [
        Sample("one", "Eins", "eins"),
        Sample("two", "Zwei", "zwei"),
        Sample("three", "Drei", "drei"),
    ]


def test_samples_come_from_all_over_a_long_set_and_are_not_endless(tmp_path) -> None:
    run = write_run(tmp_path / "run")
    lines = "".join(f"{i} {'x' * 500}\n" for i in range(600))
    (run.place.translations / "test-averaged-step-40.txt").write_text(lines)
    samples = select_kind(run_blocks(run, "r", no_texts), Sample)
    assert [sample.translation.split()[0] for sample in samples] == [
        "0",
        "100",
        "200",
        "300",
        "400",
        "500",
    ]
    assert {len(sample.translation) for sample in samples} == {402}


def test_another_test_set_is_not_taken_for_the_translated_one(tmp_path) -> None:
    run = write_run(tmp_path / "run")
    blocks = run_blocks(run, "r", lambda _: (["one"], ["Eins"]))
    assert [sample.source for sample in select_kind(blocks, Sample)] == [None] * 3
    assert any("not available" in each.text for each in select_kind(blocks, Paragraph))


def test_without_texts_a_parsers_trees_have_no_words(tmp_path) -> None:
    trees = DataConfig(dataset="grammar_ende", target_language="tree")
    parser = {"step": 40, "sentences": 10, "f1": 91.3, "perplexity": 1.1}
    scores = {"test averaged/step-40": parser}
    run = write_run(tmp_path / "run", data=trees, scores=scores)
    run.place.metrics_file.write_text('{"step": 10, "dev_f1_greedy": 31.0}\n')
    path = run.place.translations / "test-averaged-step-40.txt"
    path.write_text("(S (NP (PRP$ my) (NN dog)) (VP (VBZ runs)) (. .))\n(: --)\n")
    blocks = run_blocks(read_run(run.name), "r", no_texts)
    shown = [sample.translation for sample in select_kind(blocks, Sample)]
    assert shown == ["(S (NP PRP$ NN) (VP VBZ) .)", ":"]
    brackets = select_kind(blocks, Table)[0]
    assert "EVALB" in brackets.caption and brackets.rows[0].cells[2] == "91.30"
    (figure,) = select_kind(blocks, Figure)
    assert figure.alt == "Curves over steps: F1 of dev sentences, greedy"


def test_a_run_that_has_just_begun_says_what_is_missing(tmp_path) -> None:
    run = write_run(tmp_path / "run", scores={})
    run.place.metrics_file.unlink()
    (run.place.translations / "test-averaged-step-40.txt").unlink()
    blocks = run_blocks(read_run(run.name), "r", no_texts)
    said = " ".join(each.text for each in select_kind(blocks, Paragraph))
    assert "Not scored yet." in said
    assert "Not one line of metrics.jsonl" in said
    assert "No test set has been translated yet." in said
    (command,) = select_kind(blocks, Command)
    assert command.text == f"python -m t2t_keras.evaluate --model_dir={run.name}"


def test_the_average_that_was_made_last_is_shown(tmp_path) -> None:
    scores = {f"test averaged/step-{n}": build_score(step=n, bleu=n) for n in (30, 40)}
    run = write_run(tmp_path / "run", scores=scores)
    earlier = run.place.translations / "test-averaged-step-30.txt"
    earlier.write_text("un\ndeux\ntrois\n")
    another_search = earlier.with_name("test-averaged-step-90-beam-1-alpha-0.6.txt")
    another_search.write_text("uno\n")
    # An average without scores and translations is passed over.
    for made_last, bleu, first in ((30, 30, "un"), (40, 40, "eins"), (35, 40, "eins")):
        run.place.update_run_card({"averaged": {"steps": [10, made_last]}})
        run = read_run(run.name)
        assert run.test_scores()["bleu"] == bleu
        samples = select_kind(run_blocks(run, "r", no_texts), Sample)
        assert samples[0].translation == first
