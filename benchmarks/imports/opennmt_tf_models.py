"""Imports of OpenNMT-tf's models against OpenNMT-tf: logits, greedy and beam search."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.imports.routes import convert, count_equal, translate_by_all_routes
from t2t_keras import Run
from t2t_keras.text.padding import pad_sentences, shift_right
from t2t_keras.text.vocabulary import EOS_ID, UNK_ID, Vocabulary

_PROGRAM = Path(__file__).with_name("oracle_opennmt_tf.py")
# Kind of a model, and the folder of its checkpoint. A model of random weights does not
# end its translations, so only its logits are compared.
MODELS = (("catalog", "run"), ("described", "run/avg"), ("random", "run"))


def train(python: str, kind: str, text: Path, folder: Path) -> None:
    """Makes a model.

    Args:
        python: Interpreter with OpenNMT-tf.
        kind: A kind of `MODELS`.
        text: Folder of the grammar.
        folder: Folder to write.
    """
    command = [python, str(_PROGRAM), "train", kind, str(text), str(folder)]
    subprocess.run(command, check=True)


def check(
    python: str, folder: Path, kind: str, lines: Sequence[str], work: Path
) -> dict[str, str]:
    """Returns the figures of an import.

    Args:
        python: Interpreter with OpenNMT-tf.
        folder: Folder with data.yml and the run.
        kind: A kind of `MODELS`.
        lines: Source text.
        work: Empty folder for what this writes.
    """
    checkpoint = dict(MODELS)[kind]
    text, answers = work / "lines.txt", work / "answers"
    lines = [] if kind == "random" else lines
    text.write_text("".join(f"{line}\n" for line in lines))
    command = [python, str(_PROGRAM), "answer", str(folder), str(text), str(answers)]
    subprocess.run([*command, f"--checkpoint={checkpoint}"], check=True)
    expected = json.loads(answers.with_suffix(".json").read_text())
    with np.load(answers.with_suffix(".npz")) as archive:
        logits = [archive[f"arr_{i}"] for i in range(len(expected["pairs"]))]
    configuration = folder / f"{checkpoint.replace('/', '-')}.yml"
    settings = (folder / "data.yml").read_text()
    configuration.write_text(
        settings.replace("model_dir: run", f"model_dir: {checkpoint}")
    )
    convert("opennmt_tf", configuration, work / "run")
    run = Run(work / "run")
    errors, largest = _logit_errors(run, expected["pairs"], logits)
    figures = {
        "logits": f"{len(errors)} pairs up to {largest:.1f}, "
        f"largest difference {max(errors):.1e}"
    }
    if not lines:
        return figures
    routes = translate_by_all_routes(work / "run", lines, beam_size=1)
    for name, found in routes.items():
        figures[f"greedy, {name}"] = count_equal(found, expected["greedy"])
    beam = [line.text for line in run.translate(lines, beam_size=4)]
    return {**figures, "beam 4": count_equal(beam, expected["beam"])}


def _logit_errors(
    run: Run,
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]],
    logits: Sequence[np.ndarray],
) -> tuple[list[float], float]:
    """Returns the largest difference in each pair's logits, and the largest logit."""
    trained = run.trained("latest")
    originals = run.model_dir.run_card()["import"]["original_ids"]
    sides = _ids(trained.vocabulary.source), _ids(trained.vocabulary)
    sources, targets = (
        pad_sentences(
            [[*(ids.get(token, UNK_ID) for token in pair[i]), EOS_ID] for pair in pairs]
        )
        for i, ids in enumerate(sides)
    )
    batch = {
        "encoder_input_tokens": sources,
        "decoder_input_tokens": shift_right(targets),
    }
    found_BTV = np.array(trained.model(batch))
    errors = [
        float(np.abs(found_TV[: len(expected)] - expected[:, originals]).max())
        for found_TV, expected in zip(found_BTV, logits, strict=True)
    ]
    return errors, max(float(np.abs(each).max()) for each in logits)


def _ids(vocabulary: Vocabulary) -> dict[str, int]:
    return {p: i for i, p in enumerate(vocabulary.pieces(range(vocabulary.size)))}
