"""Report pages: of runs and ablations, and of one ablation alone."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.reports.ablation.results import FILE, Ablation, read_results
from t2t_keras.reports.blocks import Block, Heading, Page, Paragraph
from t2t_keras.reports.paper_figures import SOURCE
from t2t_keras.reports.papers_experiments import is_papers_translator
from t2t_keras.reports.run_section import Texts, run_blocks
from t2t_keras.reports.run_summary import RunSummary, read_run
from t2t_keras.reports.table_1 import FILE as LAYER_TYPES
from t2t_keras.reports.table_1 import table_1_blocks
from t2t_keras.reports.table_2 import comparison_blocks, table_2_blocks
from t2t_keras.reports.table_3 import ablation_blocks, paper_alone
from t2t_keras.reports.table_4 import table_4_blocks
from t2t_keras.settings.model_config import BASE, BIG


@dataclasses.dataclass(frozen=True)
class Sources:
    """Sources of a report.

    Attributes:
        runs: Model directories.
        ablations: (folder on the command line, results) of `ablate`.
        layer_types: The folder that `benchmarks.layer_types` wrote, None if there is
            none.
    """

    runs: Sequence[RunSummary]
    ablations: Sequence[tuple[str, Ablation]]
    layer_types: Path | None = None


def read_sources(folders: Sequence[str]) -> Sources:
    """Reads folders, each a run, an ablation, or measured layer types.

    Raises:
        UserError: If a folder is none of them, or its contents are damaged.
    """
    runs: list[RunSummary] = []
    ablations: list[tuple[str, Ablation]] = []
    layer_types: Path | None = None
    for folder in folders:
        if (Path(folder) / FILE).is_file():
            ablations.append((folder, read_results(Path(folder))))
        elif (Path(folder) / "train.flags").is_file():
            runs.append(read_run(folder))
        elif (Path(folder) / LAYER_TYPES).is_file():
            layer_types = Path(folder)
        else:
            raise UserError(
                f"{folder} is not a model directory, with a train.flags, no ablation, "
                f"with an {FILE}, and no output of benchmarks.layer_types, with a "
                f"{LAYER_TYPES}."
            )
    return Sources(runs, ablations, layer_types)


def report_page(sources: Sources, texts: Texts, *, all_tables: bool = False) -> Page:
    """Returns the report: each run, their comparison, then tables of the paper.

    Args:
        sources: What the report is of.
        texts: Returns the test set of a run.
        all_tables: Whether Tables 1 to 4 are all shown, or only those to which the
            sources add results.
    """
    blocks: list[Block] = []
    for index, run in enumerate(sources.runs, start=1):
        blocks += run_blocks(run, f"run-{index}", texts)
    blocks += comparison_blocks(sources.runs)
    tables = _tables(sources, all_tables)
    if tables:
        introduction = Paragraph(
            "Tables of the paper, with results of this project beside its figures. "
            "Results that do not exist yet are marked: not run."
        )
        blocks += [
            introduction,
            *tables,
            Heading("Sources"),
            Paragraph(f"The paper's figures: {SOURCE}."),
        ]
    names = [
        *(run.name for run in sources.runs),
        *(folder for folder, _ in sources.ablations),
        *([str(sources.layer_types)] if sources.layer_types else []),
    ]
    return Page(f"Report on {', '.join(names)}", tuple(blocks))


def _tables(sources: Sources, all_tables: bool) -> list[Block]:
    """Returns the tables of the paper to which the sources add results, or all."""
    blocks: list[Block] = []
    if all_tables or sources.layer_types:
        blocks.append(Heading("Table 1: layer types"))
        blocks += table_1_blocks(sources.layer_types)
    if all_tables or any(map(_is_papers_translator, sources.runs)):
        blocks.append(Heading("Table 2: translation"))
        blocks += table_2_blocks(sources.runs)
    if all_tables or sources.ablations:
        blocks.append(Heading("Table 3: variations"))
        blocks += [] if sources.ablations else paper_alone()
    for index, (folder, ablation) in enumerate(sources.ablations, start=1):
        blocks.append(Heading(f"The ablation {folder}", 3))
        blocks += ablation_blocks(ablation, f"ablation-{index}")
    if all_tables or any(run.test_scores("f1") for run in sources.runs):
        blocks.append(Heading("Table 4: parsing"))
        blocks += table_4_blocks(sources.runs)
    return blocks


def _is_papers_translator(run: RunSummary) -> bool:
    return any(
        is_papers_translator(run, model, language)
        for model in (BASE, BIG)
        for language in ("de", "fr")
    )


def ablation_page(ablation: Ablation) -> Page:
    """Returns the page that `ablate` writes."""
    blocks = [
        Heading("Table 3: variations"),
        *ablation_blocks(ablation, "rows"),
        Heading("Sources"),
        Paragraph(f"The paper's figures: {SOURCE}."),
    ]
    name = re.sub(r"\s+", " ", ablation.corpus)
    return Page(f"Variations on {name}", tuple(blocks))
