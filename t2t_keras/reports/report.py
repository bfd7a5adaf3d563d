"""Report pages: of runs and ablations, and of one ablation alone."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.reports.ablation.results import FILE, Ablation, read_results
from t2t_keras.reports.blocks import Block, Heading, Page, Paragraph
from t2t_keras.reports.paper_figures import SOURCE
from t2t_keras.reports.run_section import Texts, run_blocks
from t2t_keras.reports.run_summary import RunSummary, read_run
from t2t_keras.reports.table_1 import FILE as LAYER_TYPES
from t2t_keras.reports.table_1 import table_1_blocks
from t2t_keras.reports.table_2 import table_2_blocks
from t2t_keras.reports.table_3 import ablation_blocks, paper_alone
from t2t_keras.reports.table_4 import table_4_blocks


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


def report_page(sources: Sources, texts: Texts) -> Page:
    """Returns the report: each run, with texts of its test set, then Tables 1 to 4."""
    blocks: list[Block] = [
        Paragraph(
            "Results of this project, beside the figures of the paper. Results that do "
            "not exist yet are marked: not run."
        )
    ]
    for index, run in enumerate(sources.runs, start=1):
        blocks += run_blocks(run, f"run-{index}", texts)
    blocks += [
        Heading("Table 1: layer types"),
        *table_1_blocks(sources.layer_types),
        Heading("Table 2: translation"),
        *table_2_blocks(sources.runs),
        Heading("Table 3: variations"),
    ]
    if not sources.ablations:
        blocks += paper_alone()
    for index, (folder, ablation) in enumerate(sources.ablations, start=1):
        blocks.append(Heading(f"The ablation {folder}", 3))
        blocks += ablation_blocks(ablation, f"ablation-{index}")
    blocks += [
        Heading("Table 4: parsing"),
        *table_4_blocks(sources.runs),
        Heading("Sources"),
        Paragraph(f"The paper's figures: {SOURCE}."),
    ]
    names = [
        *(run.name for run in sources.runs),
        *(folder for folder, _ in sources.ablations),
        *([str(sources.layer_types)] if sources.layer_types else []),
    ]
    return Page(f"Report on {', '.join(names)}", tuple(blocks))


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
