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
from t2t_keras.reports.ablation.plan import RowPlan, RunPlan, changes
from t2t_keras.reports.run_summary import corpus_name
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.settings.config import make_paths_absolute

FILE = "ablation.json"
_VERSION = 1


@dataclasses.dataclass(frozen=True)
class RunResult:
    """A finished run, scored on the dev set.

    Attributes:
        row: Its variation.
        seed: Seed of initial weights, data order and dropout.
        step: Number of updates made.
        perplexity: Per word piece; NaN if no pair of the set is short enough.
        bleu: sacreBLEU.
        bleu_signature: Signature of the BLEU.
        tokenized_bleu: The paper's tokenized BLEU, if there is one for the language.
        tokenized_bleu_signature: Signature of the tokenized BLEU.
        flops: FLOPs of all updates, counted from shapes.
        seconds: Time of the updates.
        devices: Number of devices.
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
class RowSummary:
    """A variation: its settings that are not the base's, and its size."""

    name: str
    flagfile: str
    changes: dict[str, Any]
    parameters: int | None


@dataclasses.dataclass(frozen=True)
class Ablation:
    """All results of an ablation.

    Attributes:
        corpus: Name of the corpus.
        vocabulary_size: Number of subwords.
        sentences: Number of sentences in the dev set.
        steps: Number of updates of the base.
        seeds: Number of runs of each row, when all are done.
        rows: The rows, base first.
        runs: Finished runs.
        failures: (row, seed, last line of the log) of failed runs.
    """

    corpus: str
    vocabulary_size: int | None
    sentences: int | None
    steps: int
    seeds: int
    rows: tuple[RowSummary, ...]
    runs: tuple[RunResult, ...]
    failures: tuple[tuple[str, int, str], ...]

    def row_runs(self, row: str) -> list[RunResult]:
        """Returns the finished runs of a row."""
        return [run for run in self.runs if run.row == row]

    @property
    def base(self) -> str:
        """The name of the row that others are compared with."""
        return self.rows[0].name


def run_result(run: RunPlan) -> RunResult | None:
    """Returns the result of a run; None if it is not done.

    Scores of another search than the row's do not count: `evaluate` of earlier releases
    wrote them in the same place.

    Raises:
        UserError: If its directory is of other settings, or it is no translator.
    """
    place = ModelDir(run.model_dir)
    if not place.exists():
        return None
    config = run.row.config
    training = dataclasses.replace(config.training, seed=run.seed)
    place.check_same(
        make_paths_absolute(dataclasses.replace(config, training=training))
    )
    card = place.run_card()
    scores = card.get("scores", {}).get(f"dev averaged/step-{run.steps}")
    cost = card.get("training_cost", {})
    if scores is None or cost.get("step") != run.steps:
        return None
    search = config.decoding.as_dict()
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
    rows: Sequence[RowPlan],
    runs: Sequence[RunPlan],
    failures: Sequence[tuple[str, int, str]],
) -> Ablation:
    """Returns the results so far."""
    done = [(run, result) for run in runs if (result := run_result(run)) is not None]
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
            RowSummary(
                row.name,
                row.flagfile,
                changes(row, base),
                None
                if size is None or row.config.model.model is not None
                else parameter_count(row.config.model, size),
            )
            for row in rows
        ),
        runs=tuple(result for _, result in done),
        failures=tuple(failures),
    )


def write_results(ablation: Ablation, folder: Path) -> None:
    """Writes `ablation.json` and `ablation.tsv` atomically."""
    content = {"version": _VERSION, **dataclasses.asdict(ablation)}
    write_text(folder / FILE, json.dumps(content, indent=2) + "\n")
    names = [field.name for field in dataclasses.fields(RunResult)]
    lines = ["\t".join(names)]
    for run in ablation.runs:
        values = (getattr(run, name) for name in names)
        lines.append("\t".join("" if v is None else str(v) for v in values))
    write_text(folder / "ablation.tsv", "".join(f"{line}\n" for line in lines))


def read_results(folder: Path) -> Ablation:
    """Reads the output of `write_results`.

    Raises:
        UserError: If it is not there, damaged, or of a later release.
    """
    path = folder / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = content.pop("version")
        if version != _VERSION:
            raise UserError(
                f"{path} is of version {version}, and this release reads {_VERSION}. "
                "Run t2t_keras.ablate again on its folder."
            )
        return Ablation(
            **{
                **content,
                "rows": tuple(RowSummary(**row) for row in content["rows"]),
                "runs": tuple(RunResult(**run) for run in content["runs"]),
                "failures": tuple(tuple(each) for each in content["failures"]),
            }
        )
    except FileNotFoundError:
        raise UserError(f"There is no {FILE} in {folder}.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is damaged ({error}). Run t2t_keras.ablate again on its folder: "
            "finished runs are not repeated."
        ) from error
