"""BUILD states the imports of the modules, which keep to the order of the packages."""

import sys
from pathlib import Path

from benchmarks.architecture import find_cycles, find_modules
from tests.architecture.build_faults import build_faults
from tests.architecture.build_file import Target, read_targets
from tests.architecture.imports import parent_packages, read_imports
from tests.architecture.tree import ROOT

SOUND_BUILD = """
py_library(
    name = "foundation",
    srcs = ["t2t_keras/__init__.py", "t2t_keras/typing.py"],
)

py_library(
    name = "text",
    srcs = glob(["t2t_keras/text/**/*.py"]),
    deps = [":foundation", "@pypi//numpy"],
)

py_library(
    name = "models",
    srcs = glob(["t2t_keras/models/**/*.py"]),
    deps = [":foundation", ":text"],
)

py_test(
    name = "test_text",
    srcs = glob(["tests/test_*.py"]),
    deps = [":models"],
)
"""


def write_sound_tree(root: Path) -> Path:
    """Writes a tree whose BUILD states all imports, and no other."""
    for path, text in (
        ("BUILD", SOUND_BUILD),
        ("docs/a.md", "a\n"),
        ("t2t_keras/__init__.py", ""),
        ("t2t_keras/typing.py", "import os.path\n"),
        ("t2t_keras/text/__init__.py", ""),
        ("t2t_keras/text/learn.py", "def learn():\n    import numpy.random\n"),
        ("t2t_keras/models/__init__.py", ""),
        ("t2t_keras/models/big.py", "from t2t_keras.text import learn\n"),
        ("tests/test_text.py", "import numpy\nimport t2t_keras.models.big\n"),
    ):
        _write(root / path, text)
    return root


def test_build_states_what_the_modules_of_this_repository_import() -> None:
    assert build_faults(ROOT) == []


# A file, its text, and the one fault that is found then.
FAULTS = (
    (
        "t2t_keras/text/bad.py",
        "from t2t_keras.models.big import Big\n",
        "t2t_keras/text/bad.py:1: imports t2t_keras.models.big upward: "
        ":models stands after :text in BUILD; move code",
    ),
    (
        "t2t_keras/models/bad.py",
        "if True:\n    import tensorflow.data as tfd\n",
        "t2t_keras/models/bad.py:2: imports tensorflow.data, which :models does "
        "not declare; add @pypi//tensorflow to its deps",
    ),
    (
        "t2t_keras/stray.py",
        "",
        "t2t_keras/stray.py: in no target of BUILD; add it to the srcs of one",
    ),
    (
        "t2t_keras/text/learn.py",
        "",
        "BUILD:7: text: nothing in it imports @pypi//numpy",
    ),
    (
        "tests/test_text.py",
        "import t2t_keras.models.big\nPAGE = __file__.parent / 'docs' / 'a.md'\n",
        "tests/test_text.py: docs/a.md is not in the data of :test_text",
    ),
    (
        "BUILD",
        SOUND_BUILD.replace('":text"]', '":text", ":test_text"]'),
        "BUILD:13: models: :test_text comes later in the file; only look upward",
    ),
)


def test_a_planted_fault_is_found(tmp_path: Path) -> None:
    assert build_faults(write_sound_tree(tmp_path / "sound")) == []
    for number, (path, text, fault) in enumerate(FAULTS):
        root = write_sound_tree(tmp_path / str(number))
        _write(root / path, text)
        assert build_faults(root)[0] == fault, (path, text)


def test_no_module_reaches_itself_through_imports() -> None:
    assert find_cycles(find_modules(ROOT)) == []


def test_the_model_reaches_keras_and_numpy_alone() -> None:
    """So that it runs on any of Keras' backends: TensorFlow is one of them."""
    assert reached_by_model(ROOT) == {"keras", "numpy"}


def reached_by_model(root: Path) -> set[str]:
    """Third-party packages that `model` imports, itself or through others of ours."""
    modules = find_modules(root)
    todo = [name for name in modules if name.startswith("t2t_keras.model")]
    seen: set[str] = set()
    third_party: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        todo += [parent for parent in parent_packages(name) if parent in modules]
        for each in read_imports(modules[name]):
            child = f"{each.module}.{each.name}"
            todo += [module for module in (each.module, child) if module in modules]
            third_party.add(each.module.split(".")[0])
    return third_party - sys.stdlib_module_names - {"t2t_keras"}


def test_the_foundation_needs_little_beside_the_standard_library() -> None:
    targets = _targets_by_name()
    for name, allowed in (
        ("foundation", []),
        ("files", ["@pypi//filelock", "@pypi//fsspec", "@pypi//zstandard"]),
        ("signature", []),
    ):
        third_party = [dep for dep in targets[name].deps if dep.startswith("@")]
        assert third_party == allowed, name


def test_training_and_decoding_do_not_import_each_other() -> None:
    targets = _targets_by_name()
    assert _reached("training", targets) & {"model", "decoding"} == set()
    assert _reached("model", targets) & {"training", "decoding"} == set()
    assert "training" not in _reached("decoding", targets)
    # Beam search takes any step function, so it must not import the model. The noise
    # of sampling is the hash of dropout (ADR 0013).
    noise = "t2t_keras.model.dropout"
    for path in (ROOT / "t2t_keras/decoding").glob("*.py"):
        if path.name not in ("transformer_search.py", "in_place_cache.py"):
            modules = [each.module for each in read_imports(path)]
            models = {m for m in modules if m.startswith("t2t_keras.model")}
            assert models <= ({noise} if path.name == "sampling.py" else set()), path


def test_nothing_below_runs_sees_settings_or_a_run() -> None:
    targets = _targets_by_name()
    below = ("text", "input_pipeline", "model", "training", "decoding", "evaluation")
    for name in (*below, "client_library", "serving_export", "server"):
        assert not _reached(name, targets) & {"settings", "runs"}, name


def test_the_core_imports_parsing_in_one_place_and_no_other_companion() -> None:
    companions = ("parsing", "pictures", "reports", "server")
    core = [path for path in (ROOT / "t2t_keras").glob("*/**/*.py")]
    for path in core:
        name = path.relative_to(ROOT / "t2t_keras")
        if name.parts[0] in companions or str(name) == "runs/tasks.py":
            continue
        for each in read_imports(path):
            first, _, rest = each.module.partition(".")
            met = first == "t2t_keras" and rest.split(".")[0] in companions
            assert not met, f"{name}:{each.line}: imports {each.module}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _targets_by_name() -> dict[str, Target]:
    return {target.name: target for target in read_targets(ROOT)}


def _reached(name: str, targets: dict[str, Target]) -> set[str]:
    """Names of the target and of its transitive dependencies."""
    reached = {name}
    for dep in targets[name].deps:
        if dep.startswith(":"):
            reached |= _reached(dep.removeprefix(":"), targets)
    return reached
