"""Table 1: costs of layer types, beside measurements."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.reports.blocks import (
    Block,
    Cell,
    Command,
    Figure,
    Missing,
    Paragraph,
    Row,
    Table,
)
from t2t_keras.reports.cells import as_number
from t2t_keras.reports.paper_figures import TABLE_1

FILE = "layer_types.json"
_POINT = re.compile(r"(.*); n = (\d+); d = (\d+)")
_COMMAND = "python -m benchmarks.layer_types --output=runs/layer_types"


def table_1_blocks(measured: Path | None) -> list[Block]:
    """Returns the paper's table, and what `benchmarks.layer_types` wrote to a folder.

    Raises:
        UserError: If the benchmark did not write the file.
    """
    note: Cell = Missing() if measured is None else "see below"
    rows = tuple(
        Row((layer.name, layer.complexity, layer.sequential, layer.path, note))
        for layer in TABLE_1
    )
    header = ("layer", "complexity", "sequential", "longest path", "measured")
    table = Table("Table 1: n positions, width d, neighborhood r", header, rows, 5)
    if measured is None:
        return [table, Command(_COMMAND)]
    return [table, *_measured_blocks(measured)]


def _measured_blocks(folder: Path) -> list[Block]:
    """Returns tables of the JSON's points and lists of records, and the plot."""
    path = folder / FILE
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        about = "; ".join(f"{k}: {v}" for k, v in content.get("about", {}).items())
        tables: list[Block] = list(_largest(content))
        tables += [
            _records(name, records)
            for name, records in content.items()
            if isinstance(records, list) and records
        ]
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise UserError(
            f"{path} is not what benchmarks.layer_types writes: {error}. Run it again."
        ) from error
    plot = folder / "layer_types.svg"
    if plot.is_file():
        svg = plot.read_text(encoding="utf-8")
        tables.append(Figure("layer-types", svg, "Cost of layer types over n and d"))
    return [*tables, *([Paragraph(about, quiet=True)] if about else [])]


def _largest(content: dict[str, Any]) -> Iterator[Table]:
    """Yields the costs of each layer at the largest n, and at the largest d."""
    rows_by_size: dict[tuple[int, int], list[Row]] = {}
    for name, costs in content.get("points", {}).items():
        point = _POINT.fullmatch(name)
        if point is None:
            raise ValueError(f"{name!r} is not a layer at some n and d")
        layer, n, d = point[1], int(point[2]), int(point[3])
        forward, training = costs["forward_seconds"], costs["training_seconds"]
        peak = costs.get("training_bytes")
        cells = (
            _milliseconds(forward),
            _milliseconds(training),
            as_number(peak and peak / 1e6, 1, "not measured"),
        )
        rows_by_size.setdefault((n, d), []).append(Row((layer, *cells)))
    batch = f"a batch of {content.get('about', {}).get('rows', 'unknown size')}"
    largest = [
        max(rows_by_size, key=lambda size: size[axis], default=None) for axis in (0, 1)
    ]
    header = ("layer", "forward, ms", "forward and backward, ms", "peak memory, MB")
    for size in dict.fromkeys(largest):
        if size is not None:
            n, d = size
            caption = f"Measured: {batch}, n = {n:,}, d = {d:,}"
            yield Table(caption, header, tuple(rows_by_size[size]))


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.3g}" if seconds < 1 else f"{1000 * seconds:,.0f}"


def _records(name: str, records: list[dict[str, Any]]) -> Table:
    header = tuple(records[0])
    rows = tuple(Row(tuple(_cell(each.get(key)) for key in header)) for each in records)
    words = 2 if header[1:2] == ("paper",) else 1
    return Table(f"Measured: {name.replace('_', ' ')}", header, rows, words)


def _cell(value: Any) -> Cell:
    if value is None:
        return Missing("not measured")
    return f"{value:.4g}" if isinstance(value, float) else str(value)
