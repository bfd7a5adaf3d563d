"""Comparison of BUILD with the imports of the Python files.

BUILD is the only statement of the package order: a target may depend only on
targets above it. Bazel checks that at build time. This check takes seconds, needs
no Bazel, and also finds faults that Bazel accepts.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.build_file import PYTHON_RULES, Target, read_targets
from tests.architecture.imports import (
    Import,
    parent_packages,
    read_imports,
    read_paths,
)
from tests.architecture.tree import files, python_files, relative

THIRD_PARTY = "@pypi//"
# Programs that compare this project with others, or run it on JAX or Apache Beam, have
# environments of their own. Bazel's lock does not contain what they import: the extras
# `peers`, `jax` and `beam`, Argos Translate, and OpenNMT-tf, which needs an older
# Keras.
PEERS = frozenset(
    "apache_beam argostranslate jax keras_hub opennmt pymarian torch "
    "transformers".split()
)
PEERS_PLACES = (
    "benchmarks/",
    "examples/",
    "t2t_keras/runs/data/beam_preparation.py",
    "tests/model/jax_worker.py",
)


def build_faults(root: Path) -> list[str]:
    """Disagreements between BUILD and the Python files below `root`.

    Empty if they agree.
    """
    targets = read_targets(root)
    owners = {module: target for target in targets for module in target.modules}
    internal = _internal_packages(root, owners)
    faults = [*_file_faults(root, targets), *_label_faults(root, targets)]
    reached = reachable_labels(targets)
    for target in targets:
        if target.rule in PYTHON_RULES:
            imports = _label_imports(root, target, owners, internal)
            faults += _import_faults(target, imports, reached)
        if target.rule == "py_test":
            faults += _data_faults(root, target, targets, reached)
    return faults


def reachable_labels(targets: list[Target]) -> dict[str, frozenset[str]]:
    """Maps each label to its transitive dependencies.

    A dep that comes later in the file is not followed: another fault reports it.
    """
    reached: dict[str, frozenset[str]] = {}
    for target in targets:
        labels = frozenset(target.deps)
        available = [reached[label] for label in labels if label in reached]
        reached[f":{target.name}"] = labels.union(*available)
    return reached


def third_party_label(module: str) -> str:
    """Label in BUILD of the distribution that provides a third-party module."""
    distribution = {
        "absl": "absl_py",
        "google": "protobuf",
        "grpc": "grpcio",
        "grpc_health": "grpcio_health_checking",
        "grpc_tools": "grpcio_tools",
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


@dataclass(frozen=True)
class _LabeledImport:
    """One import, its place in a file, and the labels that provide it.

    `labels` begins with the target of the module. The targets of the parent packages,
    whose `__init__` Python runs first, follow. Empty if BUILD has no such module.
    """

    place: str
    module: str
    labels: tuple[str, ...]


def _label_imports(
    root: Path, target: Target, owners: dict[str, Target], internal: set[str]
) -> list[_LabeledImport]:
    """Imports in the files of `target`, except of itself and the standard library."""
    labeled = []
    # The runner of a test is in its srcs, and the runner's library in its deps.
    runner = target.main.removesuffix(".py").replace("/", ".")
    if target.rule == "py_test" and runner in owners:
        label = f":{owners[runner].name}"
        labeled.append(_LabeledImport(f"BUILD:{target.line}", runner, (label,)))
    for module, path in target.modules.items():
        if not (root / path).is_file():
            continue  # _label_faults reports missing files
        implied = [Import(parent, "", 1) for parent in parent_packages(module)]
        for imported in [*read_imports(root / path), *implied]:
            label = _label(imported, path, owners, internal)
            if label is None or label == f":{target.name}":
                continue
            parents = [owners.get(each) for each in parent_packages(imported.module)]
            names = {f":{each.name}" for each in parents if each} - {f":{target.name}"}
            labels = (label, *sorted(names - {label})) if label else ()
            place = f"{path}:{imported.line}"
            labeled.append(_LabeledImport(place, imported.module, labels))
    return labeled


def _label(
    imported: Import, path: str, owners: dict[str, Target], internal: set[str]
) -> str | None:
    """Label that provides an import; "" if BUILD has none, None if it needs none."""
    child = f"{imported.module}.{imported.name}"
    top = imported.module.split(".")[0]
    owner = owners.get(child) or owners.get(imported.module)
    if owner is not None:
        return f":{owner.name}"
    if top in internal:
        # A folder without `__init__` is a parent, but has no code to run.
        is_folder = any(module.startswith(f"{imported.module}.") for module in owners)
        return None if is_folder and not imported.name else ""
    if top in PEERS and path.startswith(PEERS_PLACES):
        return None
    return None if top in sys.stdlib_module_names else third_party_label(top)


def _data_faults(
    root: Path,
    target: Target,
    targets: list[Target],
    reached: dict[str, frozenset[str]],
) -> Iterator[str]:
    """Files that a test reads by their paths, which Bazel would not put beside it."""
    by_label = {f":{each.name}": each for each in targets}
    available: set[str] = set()
    todo = [f":{target.name}", *reached[f":{target.name}"]]
    while todo:
        label = todo.pop()
        if label in by_label and label not in available:
            todo += by_label[label].data
            todo += by_label[label].srcs
        available.add(label)
    for source in target.modules.values():
        for path in read_paths(root / source, root):
            if path not in available:
                yield f"{source}: {path} is not in the data of :{target.name}"


def _import_faults(
    target: Target, imports: list[_LabeledImport], reached: dict[str, frozenset[str]]
) -> Iterator[str]:
    """Missing and unneeded deps of `target`.

    A library or a program declares everything that it imports. A test declares only
    what its other deps do not provide.
    """
    name = f":{target.name}"
    available = reached[name] if target.is_test else frozenset(target.deps)
    later = set(list(reached)[list(reached).index(name) :])
    used: set[str] = set()
    for each in imports:
        what = f"{each.place}: imports {each.module}"
        used.update(each.labels)
        label = each.labels[0] if each.labels else ""
        if not label:
            yield f"{what}, which is in no target of BUILD"
        elif label in later:
            yield f"{what} upward: {label} stands after {name} in BUILD; move code"
        elif label not in available:
            yield f"{what}, which {name} does not declare; add {label} to its deps"
    for label in sorted(set(target.deps)):
        providers = [each for each in target.deps if label in reached.get(each, ())]
        if label not in used:
            yield f"BUILD:{target.line}: {target.name}: nothing in it imports {label}"
        elif target.is_test and providers:
            here = f"BUILD:{target.line}: {target.name}"
            yield f"{here}: {label} comes with {providers[0]}"
