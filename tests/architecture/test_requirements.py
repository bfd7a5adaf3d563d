"""Requirements of pip and Bazel agree, the core needs few, and wheels are complete."""

import importlib.metadata
import sys
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.architecture import find_modules, find_reachable
from t2t_keras import _MODULES
from t2t_keras.errors import EXTRAS
from tests.architecture.imports import parent_packages
from tests.architecture.requirements import extra_imports, requirement_faults
from tests.architecture.tree import ROOT

CORE = ("prepare", "train", "translate", "evaluate", "average", "export", "client")
# Imported by their names in a text, when a public name is first used.
OF_THE_ROOT = (
    "t2t_keras.files.keras_import",
    "t2t_keras.files.quiet",
    "t2t_keras.serving.client.translation_client",
)


def read_project(folder: str = ".") -> dict:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


def test_pyproject_the_lock_and_build_agree() -> None:
    assert requirement_faults(ROOT) == []


def test_a_wheel_has_every_package() -> None:
    packages = read_project()["tool"]["setuptools"]["packages"]
    inits = (ROOT / "t2t_keras").rglob("__init__.py")
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in inits}
    assert found <= set(packages)


def test_the_core_has_few_dependencies_and_the_tests_have_all_extras() -> None:
    project = read_project()["project"]
    extras = project["optional-dependencies"]
    assert len(project["dependencies"]) <= 16
    (everything,) = map(Requirement, extras["all"])
    assert everything.extras == {"serve", "report", "convert", "filters", "formats"}
    # What "all" leaves out pins packages that others need in other versions.
    assert {"t2t_keras[all]", "t2t_keras[remote]"} <= {*extras["test"]}
    assert "t2t_keras[test]" in extras["dev"]


def test_messages_know_the_packages_of_each_extra() -> None:
    extras = read_project()["project"]["optional-dependencies"]
    owners = importlib.metadata.packages_distributions()
    for extra, modules in EXTRAS.items():
        # Those of `beam` need not be installed, and have the names of their modules.
        found = (owners.get(module, [module])[0] for module in modules)
        known = set(map(canonicalize_name, found))
        assert known == names(extras[extra]), extra


def test_the_core_imports_packages_of_extras_only_inside_functions() -> None:
    public = (f"t2t_keras.{module}" for module, _ in _MODULES)
    starts = {*public, *(f"t2t_keras.{name}" for name in CORE)}
    assert extra_imports(ROOT, starts) == set()
    # What needs an extra is seen.
    others = extra_imports(ROOT, ("t2t_keras.report", "t2t_keras.serve"))
    found = {package for _, package in others}
    assert found >= {"jinja2", "matplotlib", "starlette", "uvicorn", "grpc_health"}


def test_the_distribution_of_the_client_has_what_it_reaches() -> None:
    modules = find_modules(ROOT)
    reached, imported = set(), set()
    for start in ("t2t_keras.__main__", "t2t_keras.client", *OF_THE_ROOT):
        ours, others = find_reachable(start, modules, inside_functions=True)
        reached |= ours.union(*map(parent_packages, ours))
        imported |= others - sys.stdlib_module_names
    settings = read_project("client")["tool"]["setuptools"]
    listed = {name.removesuffix(".__init__") for name in settings["py-modules"]}
    packages = tuple(f"{name}." for name in settings["packages"])
    in_packages = {name for name in modules if f"{name}.".startswith(packages)}
    assert listed | in_packages == reached
    data = settings["package-data"]["t2t_keras.serving.protos"]
    assert list((ROOT / "t2t_keras/serving/protos").glob(data[0]))
    # TensorFlow is imported by what the client shares with other programs,
    # zstandard and fsspec where its input is compressed or on an object store.
    optional = {"tensorflow", "zstandard", "fsspec"}
    assert imported == {"absl", "google", "grpc", "tqdm"} | optional
    project, whole = read_project("client")["project"], read_project()["project"]
    assert names(project["dependencies"]) == {"absl-py", "grpcio", "protobuf", "tqdm"}
    assert set(project["dependencies"]) <= set(whole["dependencies"])
    for field in ("license", "requires-python"):
        assert project[field] == whole[field]
