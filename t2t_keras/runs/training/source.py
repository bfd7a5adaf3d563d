"""The checkpoint whose weights a run starts from, as --init_from names it."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.paths import expand
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.settings.flags import find_run
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.setting import marked
from t2t_keras.settings.training_config import OPTIMIZERS_WITH_MOMENTS
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.vocabulary import Vocabulary
from t2t_keras.training.checkpoints import (
    StoredCheckpoint,
    checkpoint_digest,
    read_state,
    steps_in,
)


@dataclasses.dataclass(frozen=True)
class Source:
    """Checkpoint whose weights a run starts from.

    Attributes:
        checkpoint: Folder of the checkpoint.
        optimizer_checkpoint: Folder of the checkpoint with the moments of Adam, the
            same unless `checkpoint` is an average; None if there is none.
        step: Number of updates at the checkpoint.
        sha256: Digest of the checkpoint.
        vocabulary: Its vocabulary.
        history: Entry "init" of its own run card: the source that it was initialized
            from; None if its initial weights were random.
        model: Settings of its model.
        optimizer: The --optimizer of its run.
    """

    checkpoint: Path
    optimizer_checkpoint: Path | None
    step: int
    sha256: str
    vocabulary: Vocabulary
    history: Mapping[str, Any] | None
    model: ModelConfig
    optimizer: str

    @functools.cached_property
    def stored(self) -> StoredCheckpoint:
        """The checkpoint, opened and hashed once.

        Raises:
            UserError: If it is damaged.
        """
        return StoredCheckpoint(self.checkpoint)

    def find_moments(self) -> Path:
        """Returns the checkpoint with the moments of Adam.

        Raises:
            UserError: If there is none.
        """
        if self.optimizer not in OPTIMIZERS_WITH_MOMENTS:
            raise UserError(
                f"--init_optimizer needs the moments of Adam, which {self.checkpoint} "
                f"does not have: its run has --optimizer={self.optimizer}. Leave out "
                "--init_optimizer."
            )
        if self.optimizer_checkpoint is None:
            raise UserError(
                f"--init_optimizer needs the moments of Adam, which {self.checkpoint} "
                "does not have, and no checkpoint that it is the average of is left. "
                "Give --init_from a folder of checkpoints/, such as "
                "runs/first/checkpoints/step-1500, or leave out --init_optimizer."
            )
        return self.optimizer_checkpoint

    def run_card_entry(self) -> dict[str, Any]:
        """Returns the run card's entry "init", with the sources of the source."""
        return {
            "checkpoint": str(self.checkpoint),
            "step": self.step,
            "sha256": self.sha256,
            "vocabulary_sha256": self.vocabulary.sha256,
            "init": self.history,
        }


def open_source(init_from: str, model_dir: ModelDir) -> Source:
    """Returns the source that --init_from names: a run, or the folder of a checkpoint.

    Raises:
        UserError: If there is no such run or checkpoint, it is damaged, it is the new
            run itself, or it has changed since the new run was started.
    """
    path = expand(init_from).resolve()
    folder = find_run(path)
    if folder is None:
        raise UserError(
            f"--init_from must be the model directory of a run, or a checkpoint's "
            f"folder in one, such as runs/first/averaged/step-1500. Received: "
            f"{init_from}, with no train.flags there or two folders above."
        )
    run = ModelDir(folder)
    checkpoint = run.find_checkpoint("averaged") if folder == path else path
    if run.path.resolve() == model_dir.path.resolve():
        raise UserError(
            f"--init_from={init_from} is in --model_dir itself. Give a new "
            "--model_dir; to resume the run, leave out --init_from."
        )
    state, config = read_state(checkpoint), run.config()
    source = Source(
        checkpoint,
        _optimizer_checkpoint(run, checkpoint),
        state.step,
        checkpoint_digest(checkpoint),
        load_vocabulary(run.vocabulary_file, run.vocabulary_sha256),
        run.run_card().get("init"),
        config.model,
        config.training.optimizer,
    )
    expected = model_dir.run_card().get("init", {}).get("sha256", source.sha256)
    if expected != source.sha256:
        raise UserError(
            f"{checkpoint} has changed since the run in {model_dir.path} was started "
            f"from it: its SHA-256 is {source.sha256[:12]}…, expected "
            f"{expected[:12]}…. Put the old checkpoint back, or start in a new "
            "--model_dir."
        )
    return source


def _optimizer_checkpoint(run: ModelDir, checkpoint: Path) -> Path | None:
    """Returns the checkpoint itself or, if it is an average, the newest one in it."""
    if checkpoint.parent == run.checkpoints:
        return checkpoint
    state = read_state(checkpoint)
    steps_of_it = {*state.averaged, state.step}
    steps = [step for step in steps_in(run.checkpoints) if step in steps_of_it]
    return run.checkpoints / f"step-{steps[-1]}" if steps else None


def other_meanings(model: ModelConfig, source: Source) -> list[str]:
    """Returns warnings of settings that the same weights had other values of.

    They have no shape, so such weights are loaded without an error.
    """
    values = [
        (name, getattr(source.model, name), getattr(model, name))
        for name in marked(ModelConfig, "reinterprets")
    ]
    return [
        f"--{name}={new}, and the weights of {source.checkpoint} were trained with "
        f"--{name}={old}"
        for name, old, new in values
        if new != old
    ]
