"""Run section of a report: scores, learning curves, sample translations, settings."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from t2t_keras.reports.blocks import (
    Block,
    Cell,
    Command,
    Details,
    Figure,
    Heading,
    Missing,
    Paragraph,
    Row,
    Sample,
    Table,
)
from t2t_keras.reports.cells import as_number, as_search
from t2t_keras.reports.plots import Curve, Panel, plot_curves
from t2t_keras.reports.run_summary import RunSummary, format_settings
from t2t_keras.reports.table_4 import parser_scores, scores_table
from t2t_keras.settings.config import ExperimentConfig, flatten

# A word of a bracketed tree, with its part of speech.
_WORD = re.compile(r"\(([^\s()]+) [^\s()]+\)")
# Returns (sources, references) of a run's test set; None if it is not available.
Texts = Callable[[RunSummary], tuple[list[str], list[str]] | None]

_SAMPLES = 6
_LONGEST_SAMPLE = 400


def run_blocks(run: RunSummary, name: str, texts: Texts) -> list[Block]:
    """Returns the section of a run; `name` is a part of its drawing's file name."""
    blocks: list[Block] = [
        Heading(f"The run {run.name}"),
        Paragraph(_summary(run)),
        Heading("Scores", 3),
        *_scores(run),
        Heading("Learning curves", 3),
        *_plot_curves(run, name),
        Heading("Sample translations", 3),
        *_samples(run, texts),
        Heading("Data and settings", 3),
        _data(run),
        _settings(run),
    ]
    return blocks


def _summary(run: RunSummary) -> str:
    model = run.config.model
    step = run.cost.get("step", 0)
    parameters = run.parameters
    size = f"{parameters / 1e6:.1f} M parameters" if parameters else "not built yet"
    stop = run.early_stop
    early = ""
    if stop and stop["step"] == step:
        early = f" Training was stopped early; the best step is {stop['best_step']:,}."
    encoder = model.encoder_layers or model.num_layers
    decoder = model.decoder_layers or model.num_layers
    layers = encoder if encoder == decoder else f"{encoder} + {decoder}"
    return (
        f"{run.corpus}; {layers} layers of width {model.d_model} with "
        f"{model.num_heads} heads, {size}; {step:,} of "
        f"{run.config.training.train_steps:,} steps are made.{early}"
    )


def _scores(run: RunSummary) -> list[Block]:
    scored = [(name, score) for name, score in run.scores() if "bleu" in score]
    parsed = parser_scores(run)
    if parsed:
        return [scores_table(run.name, run.corpus, parsed)]
    if not scored:
        return [
            Paragraph("Not scored yet."),
            Command(f"python -m t2t_keras.evaluate --model_dir={run.name}"),
        ]
    rows = tuple(
        Row(
            (
                name,
                f"{score['sentences']:,}",
                f"{score['bleu']:.2f}",
                as_number(score.get("tokenized_bleu"), 2, "no tokenizer"),
                f"{score['chrf']:.2f}",
                as_number(score["perplexity"], 3, "no pair is short enough"),
                as_search(score["decoding"]),
            )
        )
        for name, score in scored
    )
    header = (
        "set and weights",
        "sentences",
        "sacreBLEU",
        "paper's BLEU",
        "chrF",
        "PPL",
        "search",
    )
    signatures = sorted(
        {
            score[key]
            for _, score in scored
            for key in ("bleu_signature", "tokenized_bleu_signature", "chrf_signature")
            if key in score
        }
    )
    steps = run.card.get("averaged", {}).get("steps", [])
    mean = (
        f"Averaged weights are the mean of {len(steps)} checkpoint"
        f"{'s' if len(steps) > 1 else ''}, "
        f"steps {', '.join(f'{step:,}' for step in steps)}. "
        if steps
        else ""
    )
    return [
        Table("Scores of test sets", header, rows),
        Paragraph(f"{mean}Signatures: {'; '.join(signatures)}.", quiet=True),
    ]


def _curve(run: RunSummary, key: str, label: str = "") -> Curve:
    points = [(line["step"], line[key]) for line in run.metrics if key in line]
    return Curve(label, [step for step, _ in points], [value for _, value in points])


def _plot_curves(run: RunSummary, name: str) -> list[Block]:
    model, training = run.config.model, run.config.training
    regularizers = {
        "label smoothing": training.label_smoothing,
        "dropout": model.dropout_rate or model.attention_dropout_rate,
        "R-Drop": training.r_drop,
        "guided alignment": training.guided_alignment,
    }
    added = " and ".join(each for each, rate in regularizers.items() if rate)
    panels = [
        Panel(
            "Loss per token, nats",
            (
                _curve(run, "loss", f"train, with {added}" if added else "train"),
                _curve(run, "dev_loss", "dev, without" if added else "dev"),
            ),
        ),
        Panel("BLEU of dev sentences, greedy", (_curve(run, "dev_bleu_greedy"),)),
        Panel("F1 of dev sentences, greedy", (_curve(run, "dev_f1_greedy"),)),
        Panel("Learning rate", (_curve(run, "learning_rate"),)),
        Panel("Target tokens per second", (_curve(run, "target_tokens_per_second"),)),
    ]
    drawn = [
        panel._replace(curves=[curve for curve in panel.curves if curve.steps])
        for panel in panels
        if any(curve.steps for curve in panel.curves)
    ]
    if not drawn:
        return [Paragraph("Not one line of metrics.jsonl has been written yet.")]
    titles = ", ".join(panel.title for panel in drawn)
    svg = plot_curves(drawn)
    blocks: list[Block] = [
        Figure(f"{name}-curves", svg, f"Curves over steps: {titles}")
    ]
    # The loss of both is in the first panel.
    if added and len(drawn[0].curves) > 1:
        note = (
            f"The training loss is with {added}, the dev loss without. Compare their "
            "directions, not their heights: a dev loss that rises is a sign of "
            "overfitting."
        )
        blocks.append(Paragraph(note, quiet=True))
    return blocks


def _samples(run: RunSummary, texts: Texts) -> list[Block]:
    split = run.config.training.score_split
    lines = _translations(run, split)
    if lines is None:
        return [Paragraph(f"No {split} set has been translated yet.")]
    pair = texts(run)
    blocks: list[Block] = []
    if pair is None or not len(pair[0]) == len(pair[1]) == len(lines):
        blocks.append(
            Paragraph(f"The {split} set itself is not available here.", quiet=True)
        )
        pair = None
        if run.is_parser:
            # Its trees hold the sentences.
            lines = [_WORD.sub(r"\1", line) for line in lines]
    shown = min(_SAMPLES, len(lines))
    # Spread over the set, and always the same.
    for index in (len(lines) * i // shown for i in range(shown)):
        blocks.append(
            Sample(
                _cut(pair[0][index]) if pair else None,
                _cut(pair[1][index]) if pair else None,
                _cut(lines[index]),
            )
        )
    return blocks


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SAMPLE else f"{text[:_LONGEST_SAMPLE]} …"


def _translations(run: RunSummary, split: str) -> list[str] | None:
    """Returns a split's translations by the average that was made last.

    If it has none, those of the average with the highest step.
    """
    last = run.place.averaged_step()
    steps = {
        _checkpoint_step(path): path
        for path in run.place.translations.glob(f"{split}-averaged-step-*.txt")
    }
    steps.pop(0, None)
    if not steps:
        return None
    step = max(steps, key=lambda step: (step == last, step))
    text = steps[step].read_text(encoding="utf-8", errors="replace")
    return text.split("\n")[:-1]


def _checkpoint_step(path: Path) -> int:
    """Returns the step in a file name; 0 if another search than the run's wrote it."""
    match = re.search(r"step-(\d+)\.txt$", path.name)
    return int(match[1]) if match else 0


def _data(run: RunSummary) -> Table:
    corpus: Mapping[str, Any] = run.card.get("corpus", {})
    vocabulary = run.card.get("vocabulary", {})

    def number(name: str) -> Cell:
        return as_number(corpus.get(name), 0, "unknown")

    padding = corpus.get("padding_share")
    rows = [
        ("corpus", run.corpus),
        ("sentence pairs", number("pairs")),
        ("source tokens", number("source_tokens")),
        ("target tokens", number("target_tokens")),
        ("batches per epoch", number("batches_per_epoch")),
        ("padding", Missing("unknown") if padding is None else f"{padding:.1%}"),
        ("fingerprint of the text", str(corpus.get("fingerprint", "unknown"))[:12]),
        ("subwords", as_number(run.vocabulary_size, 0, "unknown")),
        ("SHA-256 of the vocabulary", str(vocabulary.get("sha256", "unknown"))[:12]),
        ("seed", str(run.card.get("seed", "unknown"))),
        ("started", str(run.card.get("started", "unknown"))),
        *((name, str(value)) for name, value in run.card.get("versions", {}).items()),
    ]
    return Table("Data", ("item", "value"), tuple(map(Row, rows)), 2)


def _settings(run: RunSummary) -> Details:
    shown, defaults = format_settings(run.config), flatten(ExperimentConfig())
    values = flatten(run.config)
    rows = tuple(
        Row((f"--{name}", text), ours=values[name] != defaults[name])
        for name, text in shown.items()
    )
    note = Paragraph(
        "Highlighted: settings other than the default, the paper's base.", True
    )
    table = Table("Settings", ("flag", "value"), rows, 2)
    return Details(f"All {len(rows)} settings", (note, table))
