"""Imports of MarianMT models against transformers: logits, greedy and beam search."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.imports.routes import convert, count_equal, translate_by_all_routes
from t2t_keras import Run
from t2t_keras.text.padding import pad_sentences, shift_right

PROGRAM = Path(__file__).with_name("oracle_transformers.py")


def check(
    python: str, opus: Path, lines: Sequence[str], work: Path, *flags: str
) -> dict[str, str]:
    """Returns the figures of an import.

    Args:
        python: Interpreter with torch and transformers.
        opus: Folder of OPUS-MT's layout, from which the model is made.
        lines: Source text.
        work: Empty folder for what this writes.
        *flags: Flags of the program that makes it.
    """
    text, answers, model = work / "lines.txt", work / "answers.json", work / "model"
    text.write_text("".join(f"{line}\n" for line in lines))
    command = [python, str(PROGRAM), str(opus), str(text), str(answers), str(model)]
    subprocess.run([*command, *flags], check=True)
    expected = json.loads(answers.read_text())
    convert("transformers", model, work / "run")
    run = Run(work / "run")
    trained = run.trained("latest")
    originals = run.model_dir.run_card()["import"]["original_ids"]
    ours = {original: i for i, original in enumerate(originals)}
    error = 0.0
    for pair in expected["logits"]:
        source, target = (
            pad_sentences([[ours[i] for i in pair[side]]])
            for side in ("source", "target")
        )
        batch = {
            "encoder_input_tokens": source,
            "decoder_input_tokens": shift_right(target),
        }
        found = np.array(trained.model(batch))[0]
        off = np.abs(found - np.array(pair["logits"])[:, originals])
        error = max(error, float(off.max()))
    ids = [
        [ours[i] for i in each] == trained.vocabulary.source.encode(line)
        for each, line in zip(expected["source_ids"], lines, strict=True)
    ]
    best = [each["text"] for each in expected["beam"]]
    greedy = [line.text for line in run.translate(lines, beam_size=1)]
    if "--random" in flags:
        beam = [line.text for line in run.translate(lines, beam_size=4)]
        routes = {"Python": beam}
    else:
        routes = translate_by_all_routes(work / "run", lines, beam_size=4)
    return {
        "source ids": f"{sum(ids)} of {len(ids)}",
        "logits": f"largest difference {error:.1e}",
        "greedy": count_equal(greedy, [each["text"] for each in expected["greedy"]]),
        **{f"beam, {name}": count_equal(got, best) for name, got in routes.items()},
    }
