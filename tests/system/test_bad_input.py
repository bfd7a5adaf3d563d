"""User errors: one message each, exit status 2, no partial files."""

from tests.in_process import run_program
from tests.runs.reverse_task import reversed_pairs, write_split

SMALL = (
    "--vocabulary_size=280",
    "--max_length=8",
    "--tokens_per_batch=64",
    "--num_layers=1",
    "--d_model=8",
    "--d_ff=8",
    "--num_heads=2",
    "--train_steps=1",
    "--nojit_compile",
)


def refused(done, message):
    """Checks that a program ended with a single error message; returns True."""
    assert done.status == 2, done.stderr
    *_, last = done.stderr.split("error: ")
    assert done.stderr.count("error: ") == 1
    assert "Traceback" not in done.stderr
    assert done.output == b""
    assert message in last
    return True


BAD_FLAGS = (
    ("--train_source=no/such.txt", "no/such.txt does not exist, nor doe"),
    ("--vocabulary_size=5000", "larger than the training text allows: its 80 li"),
    ("--vocabulary_size=100", "A vocabulary of 100 is too small: the 3 special"),
    ("--vocabulary_size=262", "the characters of the training text need"),
    ("--vocabulary_file=no.model", "/no.model"),
    ("--max_length=2", "No sentence pair is left: 40 pairs longer than 2"),
)


def test_a_refused_run_leaves_no_files(tmp_path):
    files = write_split(tmp_path, "train", reversed_pairs(40, seed=1))
    new = tmp_path / "new"
    for flag, message in BAD_FLAGS:
        done = run_program("train", f"--model_dir={new}", *SMALL, *files, flag)
        assert refused(done, message), flag
        assert not new.exists(), flag


WEIGHTS = "averaged/step-60/weights.data-00000-of-00001"
# Files of a run, their contents from the old ones (None: missing), and the message.
DAMAGES = (
    (WEIGHTS, lambda old: old[:-100], "step-60 is damaged: weights.data-0"),
    ("vocabulary.model", None, "Cannot read the vocabulary file"),
    ("vocabulary.model", lambda old: old[:500], "/run/vocabulary.model"),
    (
        "train.flags",
        lambda old: old.replace(b"--d_ff=64", b"--d_ff=96"),
        "does not fit this model",
    ),
    (
        "train.flags",
        lambda _: b"--d_modell=64\n",
        "train.flags: Unknown command line",
    ),
    ("run_card.json", lambda _: b"{", "run_card.json is damaged"),
)


def test_a_damaged_run_does_not_translate(own_short_run):
    for name, damage, message in DAMAGES:
        path = own_short_run.path / name
        old = path.read_bytes()
        path.unlink()
        if damage is not None:
            path.write_bytes(damage(old))
        done = run_program("translate", f"--model_dir={own_short_run.path}")
        assert refused(done, message), name
        path.write_bytes(old)


def test_a_model_dir_that_is_no_folder_has_a_readable_message(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    sentence = "--sentence=a"
    for name, *flags in (
        ["average", "--last=1"],
        ["translate"],
        ["visualize", sentence],
    ):
        for path in (file, file / "run"):
            done = run_program(name, f"--model_dir={path}", *flags)
            assert refused(done, str(path))
            assert "Errno" not in done.stderr
