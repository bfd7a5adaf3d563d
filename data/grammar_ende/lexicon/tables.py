"""Word tables: rows of cells between colons, in sections, with comments."""

import pathlib

Row = list[str]
_HERE = pathlib.Path(__file__).parent


def table_rows(
    file_name: str, section: str = "", folder: pathlib.Path = _HERE
) -> list[Row]:
    """Returns the rows of one section of a table, by default one beside this module.

    A line `[name]` opens a section; rows before the first one are the section
    "". Empty lines and lines that begin with `#` are skipped.

    Args:
        file_name: a file of the folder, UTF-8.
        section: the name in brackets.
        folder: where the table is.

    Returns:
        One list of cells a row, without the blanks around each cell.

    Raises:
        ValueError: if the file has no row in that section.
    """
    text = (folder / file_name).read_text(encoding="utf-8")
    rows: list[Row] = []
    current = ""
    for line in text.split("\n"):
        if line.startswith("["):
            current = line.strip("[]")
        elif line.strip() and not line.startswith("#") and current == section:
            rows.append([cell.strip() for cell in line.split(":")])
    if not rows:
        raise ValueError(
            f"section must be one of {file_name}, with rows. Received: {section!r}"
        )
    return rows
