"""Table 1: what layer types cost, beside what was measured."""

import json
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.reporting.blocks import Block, Cell, Command, Missing, Row, Table
from t2t_keras.reporting.paper_figures import TABLE_1


def table_1_blocks(measured: Path | None) -> list[Block]:
    """Returns the paper's table, and what `benchmarks.layer_types` has found.

    Args:
        measured: Its JSON; None if there is none.

    Raises:
        UserError: If the file is not what the benchmark writes.
    """
    note: Cell = Missing() if measured is None else "see below"
    rows = tuple(
        Row((layer.name, layer.complexity, layer.sequential, layer.path, note))
        for layer in TABLE_1
    )
    header = ("layer", "complexity", "sequential", "longest path", "measured")
    table = Table("Table 1: n positions, width d, neighborhood r", header, rows, 5)
    if measured is None:
        return [table, Command("python -m benchmarks.layer_types")]
    return [table, *_measured(measured)]


def _measured(path: Path) -> list[Block]:
    """Returns a table for each list of records in the benchmark's JSON."""
    try:
        facts: Any = json.loads(path.read_text(encoding="utf-8"))
        tables = [
            _records(name, records)
            for name, records in facts.items()
            if isinstance(records, list) and records
        ]
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise UserError(
            f"{path} is not what benchmarks.layer_types writes: {error}. Run it again."
        ) from error
    return list(tables)


def _records(name: str, records: list[dict[str, Any]]) -> Table:
    header = tuple(records[0])
    rows = tuple(Row(tuple(_cell(each.get(key)) for key in header)) for each in records)
    return Table(f"Measured: {name.replace('_', ' ')}", header, rows)


def _cell(value: Any) -> Cell:
    if value is None:
        return Missing("not measured")
    return f"{value:.4g}" if isinstance(value, float) else str(value)
