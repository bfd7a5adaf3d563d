"""Small models, trained once by the train program and shared by all tests of runs."""

import functools
import json
import math
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from t2t_keras.runs import models, translators
from t2t_keras.runs.export import saved_model
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import TrainedModel
from t2t_keras.runs.training import dev_evaluation, optimization
from t2t_keras.runs.training.dev_evaluation import DevEvaluation
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.text import subwords
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.training.losses import LossSums
from t2t_keras.training.update import StepSums
from t2t_keras.translation.translator import Translator
from tests.forked import run_python
from tests.make_once import make_once
from tests.runs.random_model import random_vocabulary
from tests.runs.reverse_task import Pairs, reversed_pairs, write_split

SETTINGS = (
    "--source_language=letters",
    "--target_language=reversed",
    "--vocabulary_size=280",
    "--max_length=8",
    "--tokens_per_batch=1024",
    # Bucketed by length, batches learn more slowly than mixed ones.
    "--max_shapes=1",
    "--num_layers=1",
    "--d_model=64",
    "--d_ff=128",
    "--num_heads=4",
    "--dropout_rate=0",
    "--train_steps=500",
    "--warmup_steps=100",
    "--learning_rate_scale=0.7",
    "--eval_steps=250",
    "--dev_bleu_sentences=0",
    "--save_steps=50",
    "--keep_checkpoints=4",
    "--average_checkpoints=3",
    "--extra_length=5",
    # Compiling takes longer here than it saves.
    "--nojit_compile",
)


@dataclass(frozen=True)
class TrainedRun:
    """Finished run of the train program: its directory, flags, data and output.

    Its test set is the first hundred pairs of `held_out`.
    """

    model_dir: ModelDir
    flags: tuple[str, ...]
    held_out: Pairs
    dev: Pairs
    stdout: str
    stderr: str

    @property
    def seed(self) -> int:
        """Random seed of the settings."""
        return self.model_dir.config().training.seed


# Override some of SETTINGS: enough to memorize ten sentences.
SHORT = (
    "--d_model=32",
    "--d_ff=64",
    "--train_steps=60",
    "--warmup_steps=20",
    "--eval_steps=30",
    "--save_steps=15",
    "--log_steps=20",
    "--seed=7",
    # An export takes as long as the training; `reverse_run` has both.
    "--noexport_at_end",
)


@pytest.fixture(scope="session")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    """A run of sixty steps; its train, dev and test sets are the same ten sentences."""
    return make_once(tmp_path_factory, "short", _train_short_run)


def _train_short_run(folder: Path) -> TrainedRun:
    by_first_letter = {source[0]: (source, t) for source, t in reversed_pairs(99, 4)}
    pairs = list(by_first_letter.values())
    files = {"train": pairs * 30, "dev": pairs, "test": pairs}
    file_flags = [
        flag
        for split, part in files.items()
        for flag in write_split(folder, split, part)
    ]
    return _train(folder, (*SETTINGS, *SHORT, *file_flags), pairs, pairs)


@pytest.fixture(scope="session")
def reverse_run(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    """A model trained to reverse strings, with a new random seed every time.

    To repeat a test with the same seed, set REVERSE_SEED in the environment.
    """
    run = make_once(tmp_path_factory, "reverse", _train_reverse_run)
    # pytest shows this line when a test fails.
    print(f"reverse task: seed {run.seed}")
    return run


def _train_reverse_run(folder: Path) -> TrainedRun:
    from_environment = os.environ.get("REVERSE_SEED")
    seed = int(from_environment or random.SystemRandom().randrange(2**31))
    pairs = reversed_pairs(8_600, seed)
    held_out, dev, train = pairs[:500], pairs[500:600], pairs[600:]
    flags = (
        *SETTINGS,
        f"--seed={seed}",
        *write_split(folder, "train", train),
        *write_split(folder, "dev", dev),
        *write_split(folder, "test", held_out[:100]),
    )
    return _train(folder, flags, held_out, dev)


def _train(
    folder: Path, flags: tuple[str, ...], held_out: Pairs, dev: Pairs
) -> TrainedRun:
    model_dir = ModelDir(folder / "run")
    done = run_python("-m", "t2t_keras.train", f"--model_dir={model_dir.path}", *flags)
    assert done.returncode == 0, f"{flags}: {done.stderr.decode()}"
    texts = done.stdout.decode(), done.stderr.decode()
    return TrainedRun(model_dir, flags, held_out, dev, *texts)


@pytest.fixture(scope="session", autouse=True)
def subwords_learned_once() -> Iterator[None]:
    """Keeps the subwords of the same lines, which a process of its own learns."""
    run_learner = subwords._run_learner
    learn = functools.cache(lambda task: run_learner(*json.loads(task)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subwords, "_run_learner", lambda *task: learn(json.dumps(task)))
        yield


@pytest.fixture(scope="session")
def vocabulary() -> SubwordVocabulary:
    """The vocabulary of random models."""
    return random_vocabulary()


@pytest.fixture
def own_run(reverse_run: TrainedRun, tmp_path: Path) -> ModelDir:
    """A copy of the run's directory that the test may change or damage."""
    shutil.copytree(reverse_run.model_dir.path, tmp_path / "run")
    return ModelDir(tmp_path / "run")


@pytest.fixture
def own_short_run(short_run: TrainedRun, tmp_path: Path) -> ModelDir:
    """A copy of the short run's directory that the test may change or damage."""
    shutil.copytree(short_run.model_dir.path, tmp_path / "run")
    return ModelDir(tmp_path / "run")


@pytest.fixture(scope="session")
def trained(reverse_run: TrainedRun) -> TrainedModel:
    """The averaged model of the run."""
    return models.load_trained(reverse_run.model_dir, "averaged")


@pytest.fixture(scope="session")
def make_translator(trained: TrainedModel) -> Callable[..., Translator]:
    """A function that builds a translator once for each beam size and `n_best`."""

    @functools.cache
    def build(beam_size: int = 4, n_best: int = 1) -> Translator:
        config = DecodingConfig(beam_size=beam_size, extra_length=5)
        return translators.build_translator(
            trained.model, trained.vocabulary, config, n_best
        )

    return build


@pytest.fixture
def config(tmp_path):
    """Settings of six updates of the smallest model on sixty pairs."""
    pairs = reversed_pairs(80, seed=3)
    for split, part in (("train", pairs[:60]), ("dev", pairs[60:])):
        write_split(tmp_path, split, part)
    return ExperimentConfig(
        data=DataConfig(
            train_source=(str(tmp_path / "train.source"),),
            train_target=(str(tmp_path / "train.target"),),
            dev_source=(str(tmp_path / "dev.source"),),
            dev_target=(str(tmp_path / "dev.target"),),
            vocabulary_size=280,
            max_length=8,
            tokens_per_batch=128,
        ),
        model=ModelConfig(num_layers=1, d_model=8, d_ff=8, num_heads=2),
        training=TrainingConfig(
            train_steps=6,
            warmup_steps=3,
            seed=4,
            jit_compile=False,
            log_steps=2,
            eval_steps=3,
            dev_bleu_sentences=0,
            save_steps=2,
            keep_checkpoints=2,
        ),
    )


class FakeStepper:
    """Fake stepper whose loss follows the batch; at `bad_steps` it is not finite."""

    def __init__(self, bad_steps=()):
        self.step, self.bad_steps = 0, bad_steps

    def train(self, *batches, stop=False, timed=False):
        self.step += 1
        if self.step in self.bad_steps:
            return StepSums(LossSums(math.nan, math.nan, 1.0), math.nan, 1.0)
        means = [batch["decoder_target_tokens"].mean() for batch in batches]
        loss = float(sum(means)) / len(means) / 100
        return StepSums(LossSums(loss, loss, 1.0), 1.0)

    def compile_step(self, *_):
        pass

    def computed_size(self, size):
        return size

    def must_compile(self, *_):
        return False

    evaluate = allow_only = compile_step


@pytest.fixture
def fake_stepper(monkeypatch):
    """Replaces the updates, which take long to trace, and the drawing of attention."""
    monkeypatch.setattr(optimization, "build_stepper", lambda *_, **__: FakeStepper())
    monkeypatch.setattr(dev_evaluation, "loss_sums", lambda *_: LossSums(1.0, 1.0, 1.0))
    monkeypatch.setattr(DevEvaluation, "_draw_attention", lambda *_: None)


@pytest.fixture
def unvalidated(monkeypatch):
    """Leaves out the calls that validate an export, for tests with their own."""
    monkeypatch.setattr(saved_model, "validate", lambda *_, **__: None)


@pytest.fixture
def model_dir(tmp_path):
    return ModelDir(tmp_path / "run")
