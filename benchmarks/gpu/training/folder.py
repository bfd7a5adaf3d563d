"""Folder of a training: what is in it, and the settings that its loop needs.

DIR/
  NAME-data/           of all seeds
    train.flags, vocabulary.model, run_card.json   as a model directory has them
    pairs.npz          ids of the training pairs
    dev_loss/          program of the dev loss, with the dev set
  NAME-SEED/
    training.json      `Training`
    batches.npz        pairs of each row of each batch
    update/            program of some updates, with the first batches

Needs only the standard library and NumPy.
"""

import dataclasses
import hashlib
import json
from pathlib import Path

from benchmarks.gpu.manifest import FORMAT, PROGRAM_FILE

TRAINING_FILE = "training.json"
PAIRS_FILE = "pairs.npz"
BATCHES_FILE = "batches.npz"
UPDATE_FOLDER = "update"
DEV_LOSS_FOLDER = "dev_loss"


@dataclasses.dataclass(frozen=True)
class Training:
    """Settings of a training, stored as JSON in its folder.

    Attributes:
        data: Name of the folder of its data, beside its own.
        seed: Seed of initial weights, dropout and order of the pairs.
        train_steps: Updates in all; a linear schedule depends on them.
        updates_per_run: Updates of a run of the program; they divide all numbers here.
        log_steps: Updates between two records of the loss.
        eval_steps: Updates between two evaluations of the dev loss.
        save_steps: Updates between two sets of weights to average.
        average_checkpoints: Number of last sets of weights that are averaged.
        epochs: Passes over the training pairs, the last one rounded up.
    """

    data: str
    seed: int
    train_steps: int
    updates_per_run: int
    log_steps: int
    eval_steps: int
    save_steps: int
    average_checkpoints: int
    epochs: int


def save_training(folder: Path, training: Training) -> None:
    """Writes the settings, last of all files: a folder that has them is complete."""
    values = {"format": FORMAT, **dataclasses.asdict(training)}
    text = json.dumps(values, indent=1)
    (folder / TRAINING_FILE).write_text(text + "\n", encoding="utf-8")


def load_training(folder: Path) -> Training:
    """Returns the settings of the training in a folder.

    Raises:
        SystemExit: If there are none, or their format is another version.
    """
    path = folder / TRAINING_FILE
    if not path.is_file():
        raise SystemExit(
            f"--dir must be a folder with {TRAINING_FILE}. Received: {folder}. Write "
            "it first: python -m benchmarks.gpu.training.write --help"
        )
    values = json.loads(path.read_text(encoding="utf-8"))
    version = values.pop("format", None)
    if version != FORMAT:
        raise SystemExit(
            f"{path} must be of format {FORMAT}. Received: {version}. Write the "
            "training again, with the code that is to run it."
        )
    return Training(**values)


def data_folder(folder: Path, training: Training) -> Path:
    """Returns the folder of the data of the training in a folder.

    Raises:
        SystemExit: If it is not there.
    """
    data = folder.resolve().parent / training.data
    if not data.is_dir():
        raise SystemExit(
            f"{data} must be beside {folder}, with the data of all seeds. Received no "
            "such folder. Copy it from where the training was written."
        )
    return data


def digest_of(folder: Path) -> str:
    """Returns a digest of what determines the weights of the training in a folder."""
    digest = hashlib.sha256()
    for name in (TRAINING_FILE, BATCHES_FILE, f"{UPDATE_FOLDER}/{PROGRAM_FILE}"):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()
