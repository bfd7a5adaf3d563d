"""Holds BUILD and the imports against one another.

BUILD is the one statement of the layered order: a target may depend only on
targets above it. Bazel checks that at build time; this does it in seconds, for
people who have no Bazel, and also finds what Bazel forgives.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.build_file import PYTHON_RULES, Target, read_targets
from tests.architecture.imports import Import, imports_of, parents_of
from tests.architecture.tree import files, python_files, relative

THIRD_PARTY = "@pypi//"


def build_faults(root: Path) -> list[str]:
    """Every disagreement between BUILD and the Python files below `root`.

    An empty list means that they agree.
    """
    targets = read_targets(root)
    owners = {module: target for target in targets for module in target.modules}
    internal = _internal_packages(root, owners)
    faults = [*_file_faults(root, targets), *_label_faults(root, targets)]
    for target in targets:
        if target.rule in PYTHON_RULES:
            faults += _import_faults(root, target, targets, owners, internal)
    return faults


def third_party_label(module: str) -> str:
    """The label in BUILD of the distribution that provides a third-party module."""
    distribution = {
        "absl": "absl_py",
        "google": "protobuf",
        "grpc": "grpcio",
        "tensorflow_serving": "tensorflow_serving_api",
        "xdist": "pytest_xdist",
        "yaml": "pyyaml",
    }
    top = module.split(".")[0]
    return THIRD_PARTY + distribution.get(top, top)


def _internal_packages(root: Path, owners: dict[str, Target]) -> set[str]:
    on_disk = {relative(path, root).split("/")[0] for path in python_files(root)}
    tops = {module.split(".")[0] for module in owners}
    return tops | {name.removesuffix(".py") for name in on_disk}


def _file_faults(root: Path, targets: list[Target]) -> Iterator[str]:
    owners: dict[str, list[str]] = {}
    for target in targets:
        for path in target.modules.values():
            owners.setdefault(path, []).append(target.name)
    for path in (relative(path, root) for path in python_files(root)):
        if path not in owners:
            yield f"{path}: in no target of BUILD; add it to the srcs of one"
        elif len(owners[path]) > 1:
            yield f"{path}: in two targets, {' and '.join(owners[path])}; keep one"
    for path in files(root):
        if path.name in ("BUILD", "BUILD.bazel") and path != root / "BUILD":
            yield f"{relative(path, root)}: a second BUILD; the globs end here"


def _label_faults(root: Path, targets: list[Target]) -> Iterator[str]:
    names = [target.name for target in targets]
    for index, target in enumerate(targets):
        here = f"BUILD:{target.line}: {target.name}"
        if target.name in names[:index]:
            yield f"{here}: the name is taken by an earlier target"
        if target.rule in PYTHON_RULES and not target.srcs:
            yield f"{here}: no source file matches its srcs"
        for path in target.srcs:
            if not path.startswith(":") and not (root / path).is_file():
                yield f"{here}: {path} in its srcs does not exist"
        if target.main and target.main not in target.srcs:
            yield f"{here}: its main, {target.main}, is not among its srcs"
        for fault in _dependency_faults(target, names, index):
            yield f"{here}: {fault}"


def _dependency_faults(target: Target, names: list[str], index: int) -> Iterator[str]:
    for label in sorted(set(target.deps)):
        if target.deps.count(label) > 1:
            yield f"{label} stands twice in its deps; Bazel refuses that"
    for label in target.deps + target.data:
        name = label.removeprefix(":")
        if label.startswith(":") and name not in names:
            yield f"there is no target {label}"
        elif label.startswith(":") and names.index(name) >= index:
            yield f"{label} comes later in the file; only look upward"


def _import_faults(
    root: Path,
    target: Target,
    targets: list[Target],
    owners: dict[str, Target],
    internal: set[str],
) -> Iterator[str]:
    present = {m: p for m, p in target.modules.items() if (root / p).is_file()}
    if not present:
        return  # _label_faults says which files are missing
    used: set[str] = set()
    for module, path in present.items():
        implied = [Import(parent, "", 1) for parent in parents_of(module)]
        for imported in [*imports_of(root / path), *implied]:
            label = _label(imported, owners, internal)
            if label == f":{target.name}":
                continue
            used.update(_with_parents(imported, label, owners, target) if label else ())
            fault = _import_fault(imported, label, target, targets)
            if fault:
                yield f"{path}:{imported.line}: {fault}"
    for label in sorted(set(target.deps) - used):
        yield f"BUILD:{target.line}: {target.name}: nothing in it imports {label}"


def _label(
    imported: Import, owners: dict[str, Target], internal: set[str]
) -> str | None:
    """The label that provides an import, "" if BUILD has none, None if Python has."""
    child = f"{imported.module}.{imported.name}"
    top = imported.module.split(".")[0]
    owner = owners.get(child) or owners.get(imported.module)
    if owner is not None:
        return f":{owner.name}"
    if top in internal:
        # A folder without `__init__` is a parent, yet nothing that could be run.
        is_folder = any(module.startswith(f"{imported.module}.") for module in owners)
        return None if is_folder and not imported.name else ""
    return None if top in sys.stdlib_module_names else third_party_label(top)


def _with_parents(
    imported: Import, label: str, owners: dict[str, Target], target: Target
) -> set[str]:
    """`label`, and the targets whose `__init__` Python runs on the way to it."""
    parents = [owners.get(parent) for parent in parents_of(imported.module)]
    labels = {f":{parent.name}" for parent in parents if parent is not None}
    return {label} | labels - {f":{target.name}"}


def _import_fault(
    imported: Import, label: str | None, target: Target, targets: list[Target]
) -> str:
    if label is None or label in target.deps:
        return ""
    what = f"imports {imported.module}"
    if not label:
        return f"{what}, which is in no target of BUILD"
    names = [each.name for each in targets]
    if label.startswith(":") and names.index(label[1:]) > names.index(target.name):
        return f"{what} upward: {label} stands after :{target.name} in BUILD; move code"
    return f"{what}, which :{target.name} does not declare; add {label} to its deps"
