"""Test files to run for a variant, in order."""

import re
from pathlib import Path

# The tests in architecture/ read the code instead of running it, and those in this
# folder would detect the variant itself.
_LEFT_OUT = ("architecture", "mutations")


def files_for(root: Path, module: str) -> tuple[list[Path], list[Path]]:
    """Returns the test files of a module's package, and all others.

    In each list, the file named after the module comes first, then the files that
    import it. Within these groups, the slow tests of whole programs come last.
    The package's test files are in the same folder below `tests`, or in its nearest
    parent that has tests. For a module at the top of the package they are the files
    that import it or whose names begin with its name.

    Args:
        root: Root of the checkout.
        module: Dotted name of the module that the variant changes.
    """
    _, *folders, stem = module.split(".")
    while folders and not any((root / "tests").joinpath(*folders).glob("test_*.py")):
        folders = folders[:-1]
    parent = module.rpartition(".")[0]
    imports = re.compile(
        rf"\b{re.escape(module)}\b|from {re.escape(parent)} import [^\n]*\b{stem}\b"
    )
    own, others = [], []
    for path in sorted((root / "tests").rglob("test_*.py")):
        place = path.relative_to(root / "tests").parts
        if place[0] in _LEFT_OUT:
            continue
        is_named = path.stem == f"test_{stem}"
        is_import = bool(imports.search(path.read_text(encoding="utf-8")))
        is_own = is_named or is_import or path.stem.startswith(f"test_{stem}_")
        if folders:
            is_own = place[: len(folders)] == tuple(folders)
        rank = not is_named, not is_import, place[0] == "system"
        (own if is_own else others).append((*rank, path))
    return [path for *_, path in sorted(own)], [path for *_, path in sorted(others)]
