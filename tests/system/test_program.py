"""Behavior common to all programs: help, flag errors, exit status, progress bar."""

import dataclasses
import os
import sys

import pytest
from absl import flags

from t2t_keras import __version__
from t2t_keras.errors import UserError
from t2t_keras.settings import program
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.flags import accept_model_dir, define_flags
from t2t_keras.settings.model_options import ModelOptions
from t2t_keras.settings.setting import Settings, setting
from tests.in_process import ProgramResult, run_main, run_program


def run(*arguments: str, main=lambda: None, **settings: bool) -> ProgramResult:
    """Runs a small program that has one flag."""

    def start() -> None:
        flags.DEFINE_string("colour", None, "Of the sky. Required.")
        program.run(main, "Paints.\n\n    paint --colour=blue", **settings)

    return run_main(start, "paint", *arguments)


@pytest.mark.parametrize("returned", [None, 0, 3])
def test_the_status_is_what_main_returns(returned):
    assert run(main=lambda: returned).status == (returned or 0)


def test_a_user_error_is_one_message_and_status_2():
    def fail():
        raise UserError("The sky is missing.")

    done = run(main=fail)
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr == "error: The sky is missing.\n"


@pytest.mark.parametrize("size", [1, 99_999])
def test_a_full_disk_behind_standard_output_is_named(size, monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit, match="2"), program.exit_on_errors():
            print("x" * size)
    message = "error: standard output cannot be written: No space left on device. Make"
    assert capsys.readouterr().err.startswith(message)


def test_any_other_error_keeps_its_traceback():
    def fail():
        raise KeyError("a bug of ours")

    with pytest.raises(KeyError, match="a bug of ours"):
        run(main=fail)


def test_a_program_can_run_without_tensorflow(monkeypatch):
    def fail(**_):
        raise AssertionError

    monkeypatch.setattr(program, "_import_tensorflow", fail)
    assert run(main=lambda: 3, with_tensorflow=False).status == 3
    with pytest.raises(AssertionError):
        run(main=lambda: 3)


@pytest.mark.parametrize(
    ("backend", "received"), [("tensorflow", "jax"), ("jax", "tensorflow")]
)
def test_another_backend_of_keras_is_refused(backend, received, monkeypatch):
    monkeypatch.setattr(program, "_import_tensorflow", lambda **_: None)
    monkeypatch.setenv("KERAS_BACKEND", received)
    done = run(main=lambda: 3, backend=backend)
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: KERAS_BACKEND must be {backend}, or not be")
    assert f"Received: {received}. " in done.stderr
    # A program without TensorFlow has no Keras.
    assert run(main=lambda: 3, backend=backend, with_tensorflow=False).status == 3
    monkeypatch.setenv("KERAS_BACKEND", backend)
    assert run(main=lambda: 3, backend=backend).status == 3
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    done = run(main=lambda: 3, backend=backend)
    assert done.status == 2
    assert done.stderr.startswith("error: TF_USE_LEGACY_KERAS must not be set: ")


def test_an_empty_backend_leaves_nothing_to_the_file_of_keras(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "")
    done = run(main=lambda: print(os.environ["KERAS_BACKEND"]))
    assert (done.status, done.lines) == (0, ["tensorflow"])


@pytest.mark.parametrize(
    ("name", "options"),
    [("translate", []), ("train", []), ("convert", ["--from=marian", "--input=."])],
)
def test_a_program_refuses_jax_in_one_line(name, options, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    done = run_program(name, f"--model_dir={tmp_path / 'new'}", *options)
    assert (done.status, done.output) == (2, b"")
    assert done.stderr.startswith("error: KERAS_BACKEND must be tensorflow, or not")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_stray_argument_is_refused():
    done = run("--colour=blue", "red", "green")
    assert done.status == 2
    assert "Arguments are given as flags. Received: red green." in done.stderr


def test_a_program_can_take_arguments():
    seen = []
    done = run("a", "--colour=red", "b c", main=seen.append, takes_arguments=True)
    assert (done.status, seen) == (0, [["a", "b c"]])


def test_an_unknown_flag_is_refused_and_the_nearest_named():
    done = run("--color=blue")
    assert done.status == 2
    assert done.stderr.startswith("error: Unknown command line flag 'color'. Did you ")
    assert "colour" in done.stderr


MODEL = "--model_dir=m"
# Arguments, and parts of the message.
WRONG_FLAGS = (
    (["train", MODEL, "--precision=fp16"], "precision", "fp16", "mean float16?"),
    (["train", MODEL, "--train_step=5"], "'train_step'", "train_steps"),
    (["train", MODEL, "--d_model=wide"], "--d_model=wide"),
    (["train", MODEL, "--d_model=9", "--num_heads=3"], "--d_model", "even", "9"),
    (["train", MODEL, "--alpha=nan"], "--alpha", "nan"),
    (["train", MODEL, "--flagfile=none.flags"], "none.flags"),
    (["train"], "--model_dir"),
    (["rehearse", MODEL, "--subwords=bpa"], "--subwords", "bpa", "mean bpe?"),
    (
        ["ablate", "--output=o", "--rows=configs/tiny.flags", "--batching=x"],
        "--batching",
        "bucket, pack",
    ),
    (["ablate"], "--output"),
    (["prepare", "--output=o", "--max_length=300", "--tokens_per_batch=9"], "300"),
    (["prepare", "--output=o", "--nodownload=x"], "--nodownload=x", "argument"),
    (["translate", MODEL, "--noscores=1"], "--noscores=1", "argument"),
    (["translate", MODEL, "--scores=on"], "--scores=on: ", "true or false"),
    (["train", MODEL, "--jit_compile=2"], "--jit_compile=2: ", "true or false"),
    (["ablate", "--output=o"], "--rows"),
    (["ablate", "--output=o", "--rows=gone.flags"], "gone.flags"),
    (["visualize", "--sentence", "help"], "--model_dir"),
    (["average", MODEL], "--last"),
    (["average", MODEL, "--last=0"], "--last must be at least 1"),
    (["evaluate", MODEL, "--split=tset"], "--split", "tset", "mean test?"),
    (["evaluate", MODEL, "--source=a"], "--reference"),
    (["export", MODEL, "--batch_sizes=2,1"], "--batch_sizes", "2,1"),
    (
        ["export", MODEL, "--quantization=int4"],
        "int4",
        "one of float32,",
        "mean int8?",
    ),
    (["translate", MODEL, "--beam_size=0"], "--beam_size must be at least 1"),
    (["translate", MODEL, "--alpha=inf"], "--alpha", "inf"),
    (["translate", MODEL, "--n_best=0"], "--n_best must be at least 1"),
    (["translate"], "--model_dir"),
    (["visualize", MODEL, "--kind=x"], "--kind", "encoder, decoder, memory"),
    (["visualize", MODEL, "--what=page"], "--sentence"),
    (["visualize", MODEL, "--heads=one"], "--heads", "one"),
    (["recombine", "--treebank=t"], "--output"),
    (["report"], "model directories"),
    (["serve"], "--model_base_path"),
    (["serve", "--model_base_path=.", "--port=70000"], "--port", "65535. Received:"),
    (["client"], "--server is required: host:port"),
    (["client", "--server=localhost:70000"], "70000", "65535"),
    (["train", "--model_dir=a[1]"], "--model_dir a[1] has [1], which TensorFlow "),
    (["train", MODEL, r"--init_from=a\b/c"], "--init_from", "backslashes"),
    (["convert", "--model_dir=\udcff"], "--model_dir", "not UTF-8"),
    (["translate", "--model_dir=a/[b]/c"], "--model_dir", "Rename the folder"),
    (["translate", MODEL, "--checkpoint=a[b]"], "--checkpoint"),
    (["translate", MODEL, "--ensemble_with=a[b]"], "--ensemble_with"),
    (["ablate", "--output=a[b]", "--rows=configs/tiny.flags"], "--output"),
    (["visualize", "--export_dir=a[b]"], "--export_dir"),
    (["serve", "--model_base_path=a[b]"], "--model_base_path"),
)


def test_flag_errors_are_reported_before_tensorflow_is_imported(monkeypatch, tmp_path):
    def fail(**_):
        raise AssertionError("TensorFlow")

    monkeypatch.setattr(program, "_import_tensorflow", fail)
    no_text = tmp_path / "bytes"
    no_text.write_bytes(b"--d_model=\xd0 \n")
    for arguments, *parts in (
        *WRONG_FLAGS,
        (["train", MODEL, f"--flagfile={no_text}"], "UTF-8"),
    ):
        done = run_program(*arguments)
        assert (done.status, done.output) == (2, b""), (arguments, done.stderr)
        assert done.stderr.startswith("error: "), (arguments, done.stderr)
        assert done.stderr.count("error: ") == 1, done.stderr
        for part in parts:
            assert part in done.stderr, (arguments, done.stderr)


def test_the_version_needs_no_other_flag():
    for name in ("train", "client", "report", "serve"):
        done = run_program(name, "--version")
        found = done.status, done.lines
        assert found == (0, [f"t2t_keras {__version__}"]), (name, done.stderr)


def test_help_is_the_usage_and_the_programs_own_flags():
    for asked in ("--help", "-help", "-h", "--h"):
        done = run(asked, main=lambda: 1 / 0)
        assert done.status == 0, asked
        assert done.stdout.startswith(
            "Paints.\n\n    paint --colour=blue\n\nFlags of this"
        ), asked
        assert "  --colour\n      Of the sky. Required.\n" in done.stdout, asked
        assert "--d_model" not in done.stdout, asked
        assert "--pdb" not in done.stdout, asked  # absl's own are for --helpfull


@dataclasses.dataclass(frozen=True)
class Paint(Settings):
    """Options of a program that paints."""

    colour: str | None = setting(None, "Of the sky.")
    canvas: str | None = setting(None, "File.", path=True)
    words: tuple[str, ...] = setting((), "Text.", repeated=True)
    folders: tuple[str, ...] = setting((), "Folders.", repeated=True, path=True)
    from_: str | None = setting(None, "Origin.", path=True)


def test_help_has_the_flags_of_the_program_and_no_ignored_one():
    for define, listed in (
        (lambda: define_flags(ModelOptions), ["model_dir", "checkpoint [averaged]"]),
        (accept_model_dir, []),
    ):

        def start(define=define):
            define()
            define_flags(Paint)
            program.run(lambda: None, "Paints.", settings_used=["d_ff"])

        flags.DEFINE_integer("d_ff", 2048, "Inner width.", module_name="elsewhere")
        text = run_main(start, "paint", "--help").stdout
        delattr(flags.FLAGS, "d_ff")
        names = [line[4:] for line in text.splitlines() if line.startswith("  --")]
        own = ["colour", "canvas", "words", "folders", "from", "d_ff [2048]"]
        assert names == [*listed, *own], define


def test_a_home_folder_is_expanded_in_paths_and_not_in_text(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))

    def main(arguments):
        print(flags.FLAGS.colour, *arguments)

    # A flag that no setting describes may be a path.
    done = run("--colour=~/a,b~", "~/c", "d", main=main, takes_arguments=True)
    assert done.lines == [f"{tmp_path}/a,b~ {tmp_path}/c d"]
    (tmp_path / "all.flags").write_text("--colour=~/a")
    done = run("--flagfile=~/all.flags", main=main, takes_arguments=True)
    assert done.lines == [f"{tmp_path}/a"]
    read = []

    def start():
        options = define_flags(Paint)
        program.run(lambda: read.append(options.read()), "Paints.")

    names = ("colour", "canvas", "words", "folders", "from")
    run_main(start, "paint", *(f"--{name}=~/a" for name in names))
    home = f"{tmp_path}/a"
    assert read == [Paint("~/a", home, ("~/a",), (home,), home)]


def test_a_required_flag():
    def main():
        print(program.require_flag("colour"))

    assert run("--colour=blue", main=main).lines == ["blue"]
    done = run(main=main)
    assert done.status == 2
    assert done.stderr == "error: --colour is required: Of the sky. Required.\n"


@pytest.fixture
def parse_decoding():
    """Applies command-line flags to the decoding settings of a run."""

    def parse(*arguments: str) -> DecodingConfig:
        values = flags.FlagValues()
        search = define_flags(DecodingConfig, default_note="x", flag_values=values)
        values(["program", *arguments])
        decoding = DecodingConfig(beam_size=7, alpha=0.25, extra_length=9)
        return decoding.override(**search.values())

    return parse


def test_flags_override_the_settings_of_the_run(parse_decoding):
    for arguments, beam_size, alpha in (
        ([], 7, 0.25),
        (["--beam_size=1"], 1, 0.25),
        (["--alpha=0"], 7, 0.0),
        (["--beam_size=2", "--alpha=1.5"], 2, 1.5),
    ):
        expected = DecodingConfig(beam_size=beam_size, alpha=alpha, extra_length=9)
        assert parse_decoding(*arguments) == expected, arguments
    options = ["--length_penalty=power", "--suppress_unknown", "--min_length=3"]
    expected = DecodingConfig(7, 0.25, 8, "power", True, 3, 2, True)
    options += ["--no_repeat_ngram=2", "--extra_length=8", "--renormalize"]
    assert parse_decoding(*options) == expected


def test_no_progress_bar_without_a_terminal(capfd):
    with program.progress_bar(5, "sentences") as bar:
        bar.update(3)
    assert capfd.readouterr() == ("", "")
