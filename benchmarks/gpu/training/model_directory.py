"""Model directory of a finished training, by the project's own writers."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

from benchmarks.gpu.manifest import load_manifest
from benchmarks.gpu.training.files import load_weights
from benchmarks.gpu.training.folder import DEV_LOSS_FOLDER, data_folder, load_training
from t2t_keras.files.atomic import atomic_folder
from t2t_keras.runs import models
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.imported_run import check_new
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.training.checkpoints import CheckpointState, write_arrays


def write_model_dir(folder: Path, weights: Path, path: Path) -> dict[str, Any]:
    """Writes a model directory, all of it or nothing.

    Args:
        folder: Folder of the training; that of its data is beside it.
        weights: Folder of the results of trainings.
        path: The model directory, which must not exist or be empty.

    Returns:
        What was stored beside the weights.

    Raises:
        SystemExit: If a training or weights are missing.
        UserError: If `path` is not empty, or the weights do not fit the model.
    """
    check_new(path)
    training = load_training(folder)
    data = data_folder(folder, training)
    states = [
        one for one in load_manifest(data / DEV_LOSS_FOLDER).arguments if one.is_state
    ]
    shapes = [one.shape for one in states]
    values, about = load_weights(weights / folder.resolve().name, shapes)
    named = {
        one.name.replace("/", "-"): value
        for one, value in zip(states, values, strict=True)
    }
    written = ModelDir(data)
    config, vocabulary = (
        written.config(),
        load_vocabulary(written.vocabulary_file, written.vocabulary_sha256),
    )
    seeded = dataclasses.replace(config.training, seed=training.seed)
    config = dataclasses.replace(config, training=seeded)
    with atomic_folder(path) as partial:
        model_dir = ModelDir(partial)
        vocabulary.save(model_dir.vocabulary_file)
        entries = {
            "seed": training.seed,
            "averaged": {"steps": about["averaged"]},
            "trained_by_program": about,
        }
        model_dir.update_run_card({**written.run_card(), **entries})
        state = CheckpointState(
            step=about["step"],
            averaged=tuple(about["averaged"]),
            fingerprints={"vocabulary": vocabulary.sha256},
        )
        write_arrays(model_dir.averaged / f"step-{state.step}", {"model": named}, state)
        flagfile = shlex.quote(str(path / model_dir.flagfile.name))
        model_dir.write_config(
            config,
            "Settings of a run whose updates were computed by benchmarks/gpu/training. "
            f"To run it again:\npython -m t2t_keras.train --flagfile={flagfile} "
            "--model_dir=...",
        )
        models.load_trained(model_dir, "averaged")  # raises if weights are missing
    return about
