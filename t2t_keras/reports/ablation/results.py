"""Results of an ablation: `ablation.json`, and a TSV with a line for each run."""

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import write_text
from t2t_keras.reports.ablation.parameters import parameter_count
from t2t_keras.reports.ablation.plan import Row, Run, changes
from t2t_keras.reports.run_facts import corpus_name
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.settings.flat import with_absolute_paths

FILE = "ablation.json"
_VERSION = 1


@dataclasses.dataclass(frozen=True)
class RunResult:
    """A finished run, scored on the dev set.

    Attributes:
        row: Its variation.
        seed: Of initial weights, data order and dropout.
        step: Updates made.
        perplexity: Per word piece; NaN if no pair of the set is short enough.
        bleu: sacreBLEU.
        bleu_signature: How it was counted.
        tokenized_bleu: The paper's, if there is one for the language.
        tokenized_bleu_signature: How that was counted.
        flops: Counted from shapes, of all updates.
        seconds: That the updates took.
        devices: That took part.
    """

    row: str
    seed: int
    step: int
    perplexity: float
    bleu: float
    bleu_signature: str
    tokenized_bleu: float | None
    tokenized_bleu_signature: str | None
    flops: float
    seconds: float
    devices: int


@dataclasses.dataclass(frozen=True)
class RowFacts:
    """A variation: which settings are not the base's, and how large it is."""

    name: str
    flagfile: str
    changes: dict[str, Any]
    parameters: int | None


@dataclasses.dataclass(frozen=True)
class Ablation:
    """All of it.

    Attributes:
        corpus: Its name, and what it was found to be.
        vocabulary_size: Subwords.
        sentences: In the dev set.
        steps: Updates of the base.
        seeds: Runs of each row, when all are done.
        rows: The base first.
        runs: Those that are done.
        failures: (row, seed, what was said last) of those that ended otherwise.
    """

    corpus: str
    vocabulary_size: int | None
    sentences: int | None
    steps: int
    seeds: int
    rows: tuple[RowFacts, ...]
    runs: tuple[RunResult, ...]
    failures: tuple[tuple[str, int, str], ...]

    def of(self, row: str) -> list[RunResult]:
        """Returns the finished runs of a row."""
        return [run for run in self.runs if run.row == row]

    @property
    def base(self) -> str:
        """The name of the row that others are compared with."""
        return self.rows[0].name


def run_result(run: Run) -> RunResult | None:
    """Returns what a run came to, None if it is not done.

    Scores of another search than the row's are none of its own: `evaluate` of earlier
    releases put them in the same place.

    Raises:
        UserError: If its directory is of other settings, or it is no translator.
    """
    place = ModelDir(run.model_dir)
    if not place.exists():
        return None
    config = run.row.config
    training = dataclasses.replace(config.training, seed=run.seed)
    place.check_same(
        with_absolute_paths(dataclasses.replace(config, training=training))
    )
    card = place.run_card()
    scores = card.get("scores", {}).get(f"dev averaged/step-{run.steps}")
    cost = card.get("training_cost", {})
    if scores is None or cost.get("step") != run.steps:
        return None
    search = dataclasses.asdict(config.decoding)
    if scores.get("decoding", search) != search:
        return None
    if "bleu" not in scores:
        raise UserError(
            f"{run.model_dir} has no BLEU: variations of translators are compared."
        )
    perplexity = scores["perplexity"]
    return RunResult(
        row=run.row.name,
        seed=run.seed,
        step=scores["step"],
        perplexity=math.nan if perplexity is None else perplexity,
        bleu=scores["bleu"],
        bleu_signature=scores["bleu_signature"],
        tokenized_bleu=scores.get("tokenized_bleu"),
        tokenized_bleu_signature=scores.get("tokenized_bleu_signature"),
        flops=cost["flops"],
        seconds=3600 * cost["hours"],
        devices=cost["devices"],
    )


def collect(
    rows: Sequence[Row], runs: Sequence[Run], failures: Sequence[tuple[str, int, str]]
) -> Ablation:
    """Returns what there is so far."""
    done = [(run, found) for run in runs if (found := run_result(run)) is not None]
    card = ModelDir(done[0][0].model_dir).run_card() if done else {}
    size = card.get("vocabulary", {}).get("size")
    scores = card.get("scores", {})
    base = rows[0]
    return Ablation(
        corpus=corpus_name(card, base.config.data),
        vocabulary_size=size,
        sentences=next((score["sentences"] for score in scores.values()), None),
        steps=base.config.training.train_steps,
        seeds=len(runs) // len(rows),
        rows=tuple(
            RowFacts(
                row.name,
                row.flagfile,
                changes(row, base),
                size and parameter_count(row.config.model, size),
            )
            for row in rows
        ),
        runs=tuple(result for _, result in done),
        failures=tuple(failures),
    )


def write_results(ablation: Ablation, folder: Path) -> None:
    """Writes `ablation.json` and `ablation.tsv` atomically."""
    facts = {"version": _VERSION, **dataclasses.asdict(ablation)}
    write_text(folder / FILE, json.dumps(facts, indent=2) + "\n")
    names = [field.name for field in dataclasses.fields(RunResult)]
    lines = ["\t".join(names)]
    for run in ablation.runs:
        values = (getattr(run, name) for name in names)
        lines.append("\t".join("" if v is None else str(v) for v in values))
    write_text(folder / "ablation.tsv", "".join(f"{line}\n" for line in lines))


def read_results(folder: Path) -> Ablation:
    """Returns what `write_results` wrote.

    Raises:
        UserError: If it is not there, damaged, or of a later release.
    """
    path = folder / FILE
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        version = facts.pop("version")
        if version != _VERSION:
            raise UserError(
                f"{path} is of version {version}, and this release reads {_VERSION}. "
                "Run t2t_keras.ablate again on its folder."
            )
        return Ablation(
            **{
                **facts,
                "rows": tuple(RowFacts(**row) for row in facts["rows"]),
                "runs": tuple(RunResult(**run) for run in facts["runs"]),
                "failures": tuple(tuple(each) for each in facts["failures"]),
            }
        )
    except FileNotFoundError:
        raise UserError(f"There is no {FILE} in {folder}.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is damaged ({error}). Run t2t_keras.ablate again on its folder: "
            "finished runs are not repeated."
        ) from error
