"""Exports to Argos Translate against CTranslate2 with the same settings of a search."""

import json
import os
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

import ctranslate2
import sentencepiece

from benchmarks.imports.routes import count_equal
from t2t_keras import Run
from t2t_keras.runs.export.argos import export_argos
from t2t_keras.runs.model_dir import ModelDir

PROGRAM = Path(__file__).with_name("oracle_argos.py")


def check(python: str, run: Path, lines: Sequence[str], work: Path) -> dict[str, str]:
    """Returns the figures of an export.

    Args:
        python: Interpreter with argostranslate.
        run: A model directory.
        lines: Source text, a sentence each.
        work: Empty folder for what this writes.
    """
    trained = Run(run).trained("averaged")
    (package,) = export_argos(trained, ModelDir(work / "run")).glob("*.argosmodel")
    data = trained.config.data
    answers = ask_argos(
        python, package, (data.source_language, data.target_language), lines, work
    )
    with zipfile.ZipFile(package) as archive:
        archive.extractall(work)
    expected = translate(work / package.stem, lines)
    paragraph = " ".join(expected)
    return {
        "translations": count_equal(answers["lines"], expected),
        "sentences of one paragraph": count_equal([answers["paragraph"]], [paragraph]),
    }


def ask_argos(
    python: str,
    package: Path,
    languages: tuple[str, str],
    lines: Sequence[str],
    work: Path,
) -> dict[str, object]:
    """Returns what Argos Translate answers after it has installed a package.

    Args:
        python: Interpreter with argostranslate.
        package: A file `.argosmodel`.
        languages: Codes of source and target language.
        lines: Source text.
        work: Folder for its settings and packages, and for the answers.
    """
    text, answers, home = work / "lines.txt", work / "answers.json", work / "home"
    home.mkdir()
    text.write_text("".join(f"{line}\n" for line in lines))
    command = [python, str(PROGRAM), str(package), *languages, str(text), str(answers)]
    # By default it computes products in int8.
    environment = {**os.environ, "HOME": str(home), "ARGOS_COMPUTE_TYPE": "float32"}
    for name in ("PYTHONPATH", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    subprocess.run(command, check=True, env=environment)
    return json.loads(answers.read_text("utf-8"))


def translate(folder: Path, lines: Sequence[str]) -> list[str]:
    """Returns translations by CTranslate2, with the settings of Argos Translate."""
    processor = sentencepiece.SentencePieceProcessor()
    processor.Load(str(folder / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(folder / "model"), compute_type="float32")
    pieces = [processor.encode(line, out_type=str) for line in lines]
    results = translator.translate_batch(
        pieces, beam_size=4, length_penalty=0.2, replace_unknowns=True
    )
    return [processor.decode_pieces(each.hypotheses[0]) for each in results]
