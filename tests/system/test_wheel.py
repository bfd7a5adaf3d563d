"""The wheel in a fresh environment, as users install it, without a checkout."""

import os
import site
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.forked import REPOSITORY
from tests.system.wheels import make_environment


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The folder of a fresh virtual environment with the wheel.

    Other packages come from the test environment, because installing TensorFlow takes
    minutes. A .pth file adds them after the new environment's own packages. Python does
    not read the .pth files of editable installs among them, so the project can only
    come from the wheel.
    """
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--no-deps", "--no-index")
    own = make_environment(tmp_path_factory, folder / "env", ".", *options)
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    paths |= {path for path in site.getsitepackages() if Path(path).is_dir()}
    (own / "dependencies.pth").write_text("".join(f"{path}\n" for path in paths))
    return folder / "env"


@pytest.fixture(scope="module")
def run(environment, tmp_path_factory):
    """Runs a script of the environment, in a folder without the checkout."""
    home, here = (tmp_path_factory.mktemp(name) for name in ("home", "here"))

    def run(name, *arguments, stdin=""):
        return subprocess.run(
            [environment / "bin" / name, *arguments],
            cwd=here,
            env={"HOME": str(home), "PATH": os.defpath},
            input=stdin,
            capture_output=True,
            text=True,
        )

    run.here = here
    return run


@pytest.mark.slow
def test_the_project_comes_only_from_the_wheel(run, environment):
    code = "import t2t_keras, keras; print(t2t_keras.__file__)"
    done = run("python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(environment)
    listed = run("python", "-m", "t2t_keras").stdout
    scripts = {path.name for path in (environment / "bin").glob("t2t-*")}
    assert scripts == {word for word in listed.split() if word.startswith("t2t-")} - {
        "t2t-NAME"
    }


@pytest.mark.slow
def test_a_run_from_the_wheel_is_trained_exported_and_translates(run, environment):
    small = ("--num_layers=1", "--d_model=32", "--d_ff=32", "--num_heads=2")
    trained = run(
        "t2t-train",
        "--flagfile=configs/tiny.flags",
        "--train_steps=4",
        *small,
        "--save_steps=2",
        "--eval_steps=4",
        "--dev_bleu_sentences=0",
        "--max_shapes=1",
        "--beam_size=1",
        "--noexport_at_end",
        "--nojit_compile",
    )
    assert trained.returncode == 0, trained.stderr
    assert "test: 1,000 sentences" in trained.stdout
    flags = (run.here / "runs/tiny/train.flags").read_text()
    assert "--dataset=grammar_ende\n" in flags
    assert str(REPOSITORY) not in flags
    line = "The dog sleeps.\n"
    translated = run("t2t-translate", "--model_dir=runs/tiny", stdin=line)
    assert translated.returncode == 0, translated.stderr
    assert translated.stdout.count("\n") == 1
    exported = run("t2t-export", "--model_dir=runs/tiny", "--format=ids")
    assert exported.returncode == 0, exported.stderr
    assert (run.here / "runs/tiny/export_ids/1/saved_model.pb").is_file()
    refused = run("t2t-train", "--flagfile=configs/tinny.flags", "--model_dir=runs/x")
    assert refused.returncode == 2
    for folder in (run.here / "configs", environment / "lib"):
        assert str(folder) in refused.stderr
    assert "configs/tiny.flags" in refused.stderr
