"""BUILD agrees with the imports; every kind of disagreement is found.

Each fault is planted in a copy of a small tree without faults.
"""

import sys
from pathlib import Path

from benchmarks.architecture import find_cycles, find_modules
from tests.architecture.build_faults import build_faults
from tests.architecture.build_file import Target, read_targets
from tests.architecture.imports import parent_packages, read_imports
from tests.architecture.tree import ROOT

SOUND_BUILD = '''"""A small t2t_keras."""

load("@rules_python//python:py_library.bzl", "py_library")

package(default_visibility = ["//visibility:public"])

filegroup(
    name = "data",
    srcs = glob(["data/**"], exclude = ["data/**/*.py"]),
)

py_library(
    name = "corpora",
    srcs = glob(["data/**/*.py"]),
    imports = ["data"],
    deps = ["@pypi//importlib_resources", "@pypi//tensorflow_datasets"],
)

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
    deps = [":foundation", ":text", "@pypi//absl_py"],
)

py_binary(
    name = "train",
    srcs = ["t2t_keras/train.py"],
    main = "t2t_keras/train.py",
    data = [":data"],
    deps = [":foundation", ":models"],
)

py_library(
    name = "benchmarks",
    srcs = glob(["benchmarks/*.py"]),
)

py_library(
    name = "tests_support",
    srcs = ["tests/main.py"],
    deps = ["@pypi//pytest"],
)

py_test(
    name = "test_text",
    srcs = ["tests/main.py"] + glob(["tests/test_*.py"]),
    main = "tests/main.py",
    deps = [":models", ":tests_support"],
)
'''

# The run is of a user, not of the repository.
TEST = (
    "import numpy\nimport pytest\nimport t2t_keras.models.big\n"
    "RUN = __file__.parent / 'runs' / 'a.flags'\n"
)


def write_sound_tree(root: Path) -> Path:
    """Writes a tree with every kind of allowed import, and no other."""
    for path, text in (
        ("BUILD", SOUND_BUILD),
        ("data/toy/words.py", "WORDS = 'a b'\n"),
        ("data/toy/toy_builder.py", "import tensorflow_datasets\nimport toy.words\n"),
        ("data/toy/corpus.txt", "a\n"),
        ("docs/a.md", "a\n"),
        ("runs/a.flags", "--a=1\n"),
        ("t2t_keras/__init__.py", ""),
        ("t2t_keras/typing.py", "import os.path\nfrom typing import Any\n"),
        ("t2t_keras/text/__init__.py", ""),
        ("t2t_keras/text/vocabulary.py", "from t2t_keras.typing import Tensor\n"),
        ("t2t_keras/text/learn.py", "def learn():\n    import numpy.random\n"),
        ("t2t_keras/models/__init__.py", ""),
        ("t2t_keras/models/big.py", "from t2t_keras.text import vocabulary\n"),
        ("t2t_keras/models/flags.py", "from absl import flags\n"),
        ("t2t_keras/train.py", "from t2t_keras.models.big import Big\n"),
        ("benchmarks/rival.py", "import jax\n"),
        ("tests/main.py", "import pytest\n"),
        ("tests/test_text.py", TEST),
    ):
        _write(root / path, text)
    return root


def test_build_states_what_the_modules_of_this_repository_import() -> None:
    assert build_faults(ROOT) == []


def test_the_sound_tree_has_no_fault(tmp_path: Path) -> None:
    assert build_faults(write_sound_tree(tmp_path)) == []


FAULTS_OF_FILES = (
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
        "t2t_keras/models/bad.py",
        "import importlib\n\nlib = importlib.import_module('grpc.aio')\n",
        "t2t_keras/models/bad.py:3: imports grpc.aio, which :models does not "
        "declare; add @pypi//grpcio to its deps",
    ),
    (
        "t2t_keras/models/bad.py",
        "def log(tf, loss):\n    tf.summary.scalar('loss', loss)\n",
        "t2t_keras/models/bad.py:2: imports tensorboard, which :models does not "
        "declare; add @pypi//tensorboard to its deps",
    ),
    (
        "t2t_keras/train.py",
        "from t2t_keras.models.big import Big\nfrom t2t_keras.text import learn\n",
        "t2t_keras/train.py:2: imports t2t_keras.text, which :train does not "
        "declare; add :text to its deps",
    ),
    (
        "t2t_keras/train.py",
        "import t2t_keras.models.big\nimport t2t_keras.model.big\n",
        "t2t_keras/train.py:2: imports t2t_keras.model.big, "
        "which is in no target of BUILD",
    ),
    (
        "t2t_keras/stray.py",
        "",
        "t2t_keras/stray.py: in no target of BUILD; add it to the srcs of one",
    ),
    (
        "t2t_keras/models/bad.py",
        "import jax\n",
        "t2t_keras/models/bad.py:1: imports jax, which :models does not declare; "
        "add @pypi//jax to its deps",
    ),
    (
        "tests/test_text.py",
        TEST + "PAGE = __file__.parent / 'docs' / 'a.md'\n",
        "tests/test_text.py: docs/a.md is not in the data of :test_text",
    ),
    (
        "t2t_keras/text/BUILD",
        "",
        "t2t_keras/text/BUILD: a second BUILD; the globs end here",
    ),
)


def test_a_fault_planted_in_a_file_is_the_one_fault_found(tmp_path: Path) -> None:
    for number, (path, text, fault) in enumerate(FAULTS_OF_FILES):
        root = write_sound_tree(tmp_path / str(number))
        _write(root / path, text)
        assert build_faults(root) == [fault], (path, text)


FAULTS_OF_BUILD = (
    (
        'deps = [":foundation", "@pypi//numpy"]',
        'deps = [":foundation", "@pypi//numpy", "@pypi//keras"]',
        "text: nothing in it imports @pypi//keras",
    ),
    (
        'deps = [":foundation", "@pypi//numpy"]',
        'deps = ["@pypi//numpy", ":foundation", "@pypi//numpy"]',
        "text: @pypi//numpy stands twice in its deps",
    ),
    (
        'deps = [":models", ":tests_support"]',
        'deps = [":models", ":tests_support", "@pypi//numpy"]',
        "test_text: @pypi//numpy comes with :models",
    ),
    (
        '"@pypi//tensorflow_datasets"]',
        '"@pypi//tensorflow_datasets", ":models"]',
        "corpora: :models comes later in the file; only look upward",
    ),
    ('data = [":data"]', 'data = [":dta"]', "train: there is no target :dta"),
    (
        '"t2t_keras/text/**/*.py"',
        '"t2t_keras/text/**/*.py", "t2t_keras/train.py"',
        "t2t_keras/train.py: in two targets, text and train; keep one",
    ),
    (
        '"t2t_keras/text/**/*.py"',
        '"t2t_keras/txt/**/*.py"',
        "text: no source file matches its srcs",
    ),
    (
        '"t2t_keras/typing.py"',
        '"t2t_keras/typing.py", "t2t_keras/gone.py"',
        "foundation: t2t_keras/gone.py in its srcs does not exist",
    ),
    ('name = "models"', 'name = "text"', "text: the name is taken"),
    (
        'main = "t2t_keras/train.py"',
        'main = "t2t_keras/trian.py"',
        "train: its main, t2t_keras/trian.py, is not among its srcs",
    ),
)


def test_a_fault_planted_in_build_is_found(tmp_path: Path) -> None:
    for number, (old, new, fault) in enumerate(FAULTS_OF_BUILD):
        root = write_sound_tree(tmp_path / str(number))
        assert SOUND_BUILD.count(old) == 1, old
        (root / "BUILD").write_text(SOUND_BUILD.replace(old, new))
        faults = build_faults(root)
        assert any(fault in each for each in faults), (old, new, faults)


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


def test_the_foundation_needs_the_standard_library_and_filelock() -> None:
    targets = _targets_by_name()
    for name, allowed in (
        ("foundation", []),
        ("files", ["@pypi//filelock"]),
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
