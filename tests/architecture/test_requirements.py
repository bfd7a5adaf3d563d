"""Requirements of pip and Bazel agree."""

from pathlib import Path

from tests.architecture.requirements import package_faults, requirement_faults
from tests.architecture.tree import ROOT

PYPROJECT = """
[project]
dependencies = ["absl-py>=2.1", "keras>=3.15,<3.16"]
[project.optional-dependencies]
test = ["pytest>=8"]
dev = ["house[test]"]
"""
LOCK = """\
absl-py==2.5.1 \\
    --hash=sha256:aa \\
    --hash=sha256:ab
keras==3.15.1 --hash=sha256:bb
pytest==9.2.0 --hash=sha256:cc
six==1.17.0 \\
    --hash=sha256:dd
"""
BUILD = 'py_library(name = "a", deps = ["@pypi//absl_py", "@pypi//keras", ":b"])\n'


def test_the_three_files_of_this_repository_agree() -> None:
    assert requirement_faults(ROOT) == []


DISAGREEMENTS = (
    (
        "requirements_lock.txt",
        "absl-py==2.5.1 ",
        "abseil==2.5.1 ",
        "requirements_lock.txt: absl-py is missing; lock again",
    ),
    (
        "requirements_lock.txt",
        " --hash=sha256:cc",
        "",
        "requirements_lock.txt: pytest==9.2.0 has no hash; lock again",
    ),
    (
        "requirements_lock.txt",
        "six==1.17.0 \\\n",
        "six @ file:///tmp/six.whl \\\n",
        "requirements_lock.txt: six @ file:///tmp/six.whl is not name==version",
    ),
    (
        "requirements_lock.txt",
        "absl-py==2.5.1 ",
        "--pre\nabsl-py==2.5.1 ",
        "requirements_lock.txt: --pre is not name==version",
    ),
    (
        "requirements_lock.txt",
        "pytest==9.2.0",
        "pytest==7.4.0",
        "requirements_lock.txt: pytest 7.4.0 is outside >=8 of pyproject.toml; "
        "lock again",
    ),
    (
        "pyproject.toml",
        '"absl-py>=2.1", ',
        "",
        "pyproject.toml: absl-py, of :a, is missing",
    ),
    (
        "BUILD",
        ":b",
        "@pypi//six",
        "pyproject.toml: six, of :a, is missing",
    ),
)


def test_a_planted_disagreement_is_found(tmp_path: Path) -> None:
    sound = {
        "pyproject.toml": PYPROJECT,
        "requirements_lock.txt": LOCK,
        "BUILD": BUILD,
    }
    for path, text in sound.items():
        (tmp_path / path).write_text(text)
    assert requirement_faults(tmp_path) == []
    for path, old, new, fault in DISAGREEMENTS:
        assert sound[path].count(old) == 1, (path, old)
        (tmp_path / path).write_text(sound[path].replace(old, new))
        assert requirement_faults(tmp_path) == [fault], (path, old, new)
        (tmp_path / path).write_text(sound[path])


def test_a_wheel_has_every_package_of_this_repository() -> None:
    assert package_faults(ROOT) == []


def test_a_package_that_a_wheel_lacks_is_found(tmp_path: Path) -> None:
    for package in ("t2t_keras", "t2t_keras/text"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "configs").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.setuptools]\npackages = ["t2t_keras", "t2t_keras.c", "t2t_keras.d"]\n'
        'package-dir = { "t2t_keras.c" = "configs", "t2t_keras.d" = "gone" }\n'
    )
    assert package_faults(tmp_path) == [
        "pyproject.toml: packages lacks t2t_keras.text",
        "pyproject.toml: there is no package t2t_keras.d",
    ]
