"""User errors: one message each, exit status 2, no partial files."""

import gzip
import json

import pytest

from t2t_keras.runs import finish
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from tests.system.in_process import run_program
from tests.system.reverse_task import reversed_pairs, write_split

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


@pytest.fixture
def train(tmp_path):
    """Starts a small training run whose text and flags are valid by default."""
    files = write_split(tmp_path, "train", reversed_pairs(40, seed=1))

    def run(*arguments, files=files):
        return run_program(
            "train", f"--model_dir={tmp_path / 'new'}", *SMALL, *files, *arguments
        )

    return run


def refused(done, message):
    """Checks that a program ended with a single error message; returns True."""
    assert done.status == 2, done.stderr
    *_, last = done.stderr.split("error: ")
    assert done.stderr.count("error: ") == 1
    assert "Traceback" not in done.stderr
    assert done.output == b""
    assert message in last
    return True


def write(path, content):
    path.write_bytes(content)
    return path


BAD_FLAGS = (
    (
        ("--train_source=no/such.txt",),
        "no/such.txt does not exist, nor doe",
    ),
    (("--vocabulary_size=5000",), "larger than the training text allows: its 80 li"),
    (("--vocabulary_size=100",), "A vocabulary of 100 is too small: the 3 special"),
    (("--vocabulary_size=262",), "the characters of the training text need"),
    (("--vocabulary_file=no.model",), "/no.model"),
    (("--subwords=bpee",), "--subwords must be one of bpe, unigram. Received: bpee"),
    (("--max_length=2",), "No sentence pair is left: 40 pairs longer than 2"),
    (("--tokens_per_batch=7",), "--tokens_per_batch must be at least --max_length"),
    (("--d_model=9", "--num_heads=3"), "--d_model must be even"),
    (("--num_heads=3",), "--d_model must be a multiple of --num_heads"),
    (("--encoder_neighborhood=4",), "--encoder_neighborhood must be odd"),
    (
        ("--batching=packed",),
        "--batching must be one of bucket, pack. Received: packed",
    ),
    (("--learned_positions=5",), "learned_positions"),
    (("now",), "Arguments are given as flags. Received: now."),
)


def test_a_refused_run_leaves_no_files(train, tmp_path):
    for arguments, message in BAD_FLAGS:
        assert refused(train(*arguments), message), arguments
        assert not (tmp_path / "new").exists(), arguments


def test_a_flag_that_cannot_be_parsed(train, tmp_path):
    """The messages come from absl."""
    for argument, message in (
        (
            "--train_step=5",
            "Unknown command line flag 'train_step'. Did you mean: train",
        ),
        ("--d_model=wide", "flag --d_model=wide: "),
        ("--train_steps=0", "flag --train_steps=0: "),
        ("--label_smoothing=1.5", "flag --label_smoothing=1.5: "),
        ("--num_heads=0", "flag --num_heads=0: "),
    ):
        assert refused(train(argument), message), argument
        assert not (tmp_path / "new").exists(), argument


def test_a_missing_flagfile():
    done = run_program("train", "--flagfile=configs/no.flags")
    assert refused(done, "There is no flagfile configs/no.flags")


def test_no_model_dir():
    assert refused(run_program("train"), "--model_dir is required: Directory of the tr")


def test_nothing_to_train_on(tmp_path):
    done = run_program("train", f"--model_dir={tmp_path / 'new'}")
    assert refused(done, "There is nothing to train on. Give --dataset")
    assert not (tmp_path / "new").exists()


def test_an_unknown_dataset_and_the_nearest_names(train, tmp_path):
    done = train("--dataset=wmt14_translat/de-en", files=[])
    assert refused(done, "There is no dataset wmt14_translat/de-en")
    assert "Did you mean wmt14_translate" in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"a\nb\nc\n", b"a\nb\n", "has 3 lines, but"),
        (b"\n \n", b"a\nb\n", "No text to learn a vocabulary from"),
        (
            gzip.compress(b"a\n" * 999, mtime=0)[:-4],
            b"a\n" * 999,
            "is a damaged or incomplete",
        ),
    ],
)
def test_text_that_cannot_be_trained_on(train, tmp_path, source, target, message):
    left = write(tmp_path / "a.txt", source)
    right = write(tmp_path / "b.txt", target)
    files = [f"--train_source={left}", f"--train_target={right}"]
    assert refused(train(files=files), message)
    assert not (tmp_path / "new").exists()


def test_a_misspelt_file_and_the_nearest_name(train, tmp_path):
    done = train(f"--train_source={tmp_path / 'trian.source'}")
    assert refused(done, "Did you mean train.source")


@pytest.mark.usefixtures("fake_stepper")
def test_text_with_nasty_lines_is_trained_on(train, tmp_path, monkeypatch):
    """CR, U+2028, invalid UTF-8, empty and overlong lines do not stop a run."""
    monkeypatch.setattr(finish, "finish", lambda *_: None)
    left = b"a\rb\na\xe2\x80\xa8b\n\xff c\n\n" + b"a b " * 9 + b"\n" + b"d e f\n" * 9
    right = b"b\ra\r\nb a\nc\na\nb\n" + b"f e d\n" * 9
    files = [
        f"--train_source={write(tmp_path / 'a', left)}",
        f"--train_target={write(tmp_path / 'b', right)}",
    ]
    done = train("--vocabulary_size=268", files=files)
    assert done.status == 0, done.stderr
    assert "1 of 14 lines have no text on one side or both" in done.stderr
    assert "1 of 14 lines are not valid UTF-8" in done.stderr
    assert "left out: 1 pairs longer than 8 tokens" in done.stderr


def damage_weights(run):
    path = run.averaged / "step-60" / "weights.data-00000-of-00001"
    path.write_bytes(path.read_bytes()[:-100])
    return f"The checkpoint {path.parent} is damaged: {path.name} has changed"


def damage_state(run):
    path = run.averaged / "step-60" / "state.json"
    path.write_text(path.read_text().replace("60", "61"))
    return f"The checkpoint {path.parent} is damaged"


def lose_the_vocabulary(run):
    run.vocabulary_file.unlink()
    return f"Cannot read the vocabulary file {run.vocabulary_file}"


def cut_the_vocabulary(run):
    run.vocabulary_file.write_bytes(run.vocabulary_file.read_bytes()[:500])
    return str(run.vocabulary_file)


def change_the_model(run):
    text = run.flagfile.read_text().replace("--d_ff=64", "--d_ff=96")
    run.flagfile.write_text(text)
    return "does not fit this model"


def deepen_the_model(run):
    text = run.flagfile.read_text().replace("--num_layers=1", "--num_layers=2")
    run.flagfile.write_text(text)
    return "does not fit this model"


def damage_the_run_card(run):
    run.run_card_file.write_text("{")
    return f"{run.run_card_file} is damaged"


def damage_the_flagfile(run):
    run.flagfile.write_text("--d_modell=64\n")
    return f"{run.flagfile}: Unknown command line flag 'd_modell'"


@pytest.mark.parametrize(
    "damage",
    [
        damage_weights,
        damage_state,
        lose_the_vocabulary,
        cut_the_vocabulary,
        change_the_model,
        deepen_the_model,
        damage_the_run_card,
        damage_the_flagfile,
    ],
)
def test_a_damaged_run_does_not_translate(own_short_run, damage):
    message = damage(own_short_run)
    done = run_program(
        "translate", f"--model_dir={own_short_run.path}", stdin=b"a b c\n"
    )
    assert refused(done, message)


def test_a_vocabulary_of_another_run(own_short_run):
    """Its ids stand for other subwords, so every translation would be nonsense."""
    lines = [line for pair in reversed_pairs(400, seed=2) for line in pair]
    other = SubwordVocabulary(learn_subwords(lines, vocabulary_size=280))
    other.save(own_short_run.vocabulary_file)
    flags = f"--model_dir={own_short_run.path}", "--beam_size=1"
    done = run_program("translate", *flags, stdin=b"a b c\n")
    assert refused(done, "is not the vocabulary that this model was trained with")
    # Without the entry in the run card, the checkpoint still has its fingerprint.
    card = json.loads(own_short_run.run_card_file.read_text())
    del card["vocabulary"]
    own_short_run.run_card_file.write_text(json.dumps(card))
    done = run_program("translate", *flags, stdin=b"a b c\n")
    assert refused(done, "was trained with another vocabulary")


def test_the_settings_of_a_started_run_cannot_be_changed(own_short_run, short_run):
    flag = f"--model_dir={own_short_run.path}"
    before = own_short_run.flagfile.read_bytes()
    done = run_program("train", flag, *short_run.flags, "--d_ff=96")
    assert refused(done, "--d_ff: 64 in the model_dir, 96 now")
    assert own_short_run.flagfile.read_bytes() == before


@pytest.mark.slow
def test_a_full_disk_while_exporting(own_run, monkeypatch):
    from t2t_keras.serving.export import saved_model

    def full(*arguments, **keywords):
        raise saved_model.tf.errors.ResourceExhaustedError(
            None, None, "No space left on device"
        )

    before = {path.name for path in own_run.export.iterdir()}
    assert {name for name in before if name.isdigit()} == {"1"}
    monkeypatch.setattr(saved_model.tf.saved_model, "save", full)
    done = run_program("export", f"--model_dir={own_run.path}", "--beam_size=1")
    assert refused(done, "cannot be written: No space left on device. Make")
    assert {path.name for path in own_run.export.iterdir()} == before


def test_a_model_dir_that_is_no_folder_has_a_readable_message(train, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for name, flags in (
        ("average", ["--last=1"]),
        ("evaluate", []),
        ("translate", []),
        ("export", []),
        ("visualize", ["--sentence=a"]),
    ):
        for path in (file, file / "run"):
            done = run_program(name, f"--model_dir={path}", *flags)
            assert refused(done, str(path))
            assert "Errno" not in done.stderr
    for path in (file, file / "run"):
        done = train(f"--model_dir={path}")
        assert refused(done, f"{file} is a file")
        assert "Errno" not in done.stderr
