"""Imports of models against the toolkits that they come from; prints a table.

    python data/grammar_ende/write_text.py text
    python -m benchmarks.imports --text=text --python=PYTHON

PYTHON is an interpreter with pymarian, sentencepiece, torch and transformers. It trains
two models with Marian, in twenty minutes on two cores; --opus names folders that it
has made before. CTranslate2 runs in this environment, on the model of --ctranslate2.
The checkpoint of --tensor2tensor is compared with NumPy. Of the model directories of
--export, exports to transformers and Marian are compared, and those of models with
random weights and other architectures; --skip_imports leaves out the rest.

    python -m benchmarks.imports --text=text --argos=PYTHON --export runs/tiny

This PYTHON has argostranslate, which installs and translates with packages of the model
directories, without a network.

    python -m benchmarks.imports --m2m100=PYTHON

This PYTHON has torch, transformers, sentencepiece and protobuf. It makes models of
M2M100 and NLLB with random weights and vocabularies of the true sizes, one of the true
size in all, and trains a small one on three toy languages, in half an hour on two
cores.

    python -m benchmarks.imports --text=text --opennmt_tf=PYTHON

This PYTHON has OpenNMT-tf, in an environment of its own. It trains two models in ten
minutes on two cores, and makes one of random weights; --opennmt_tf_models names the
folder of models that it has made before, and where it makes others. OpenNMT-tf 2.32
runs on today's TensorFlow after

    pip install OpenNMT-tf tensorflow==2.21.0 tf_keras tensorboard sentencepiece
    pip install --no-deps tensorflow-text==2.21.1

and, in utils/types.py and optimizers/discriminative_layer_training.py of the installed
tensorflow_addons, `from tf_keras.src` in place of `from keras.src`.
"""

import argparse
import pathlib
import subprocess
import tempfile

from benchmarks.imports import (
    argos_export,
    ctranslate2_models,
    m2m100_models,
    marian,
    marian_export,
    opennmt_tf_models,
    tensor2tensor_models,
    transformers_export,
    transformers_mt,
)

ROOT = pathlib.Path(__file__).parents[2]
# Name of a model, and the flags of the program that trains it.
MODELS = (
    ("post-norm, 2 + 2 layers", ("--layers=2", "--width=96", "--updates=2000")),
    ("post-norm, 6 + 6 layers", ("--layers=6", "--updates=1200")),
)


def main() -> None:
    """Makes the models, compares, and prints the figures as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", help="Interpreter with the other toolkits.")
    parser.add_argument("--text", type=pathlib.Path, help="Folder of the grammar.")
    parser.add_argument("--opus", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--ctranslate2", type=pathlib.Path)
    parser.add_argument("--tensor2tensor", type=pathlib.Path)
    parser.add_argument("--export", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--skip_imports", action="store_true")
    parser.add_argument("--argos", help="Interpreter with argostranslate.")
    parser.add_argument("--m2m100", help="Interpreter with transformers.")
    parser.add_argument("--opennmt_tf", help="Interpreter with OpenNMT-tf.")
    parser.add_argument("--opennmt_tf_models", type=pathlib.Path)
    parser.add_argument("--lines", type=int, default=200)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        check_without_text(flags, work)
        if not (flags.python or flags.opennmt_tf or flags.argos):
            return
        lines = (flags.text / "test.en").read_text("utf-8").splitlines()
        lines = lines[: flags.lines]
        if flags.opennmt_tf:
            check_opennmt_tf(flags, lines, work)
        if flags.argos:
            check_argos(flags, lines, work)
        if not flags.python:
            return
        check_exports(flags, lines, work)
        if flags.skip_imports:
            return
        folders = flags.opus or [train(flags, work, *model) for model in MODELS]
        for number, opus in enumerate(folders):
            made = new_folder(work, f"marian-{number}")
            figures = marian.check(flags.python, opus, lines, made)
            print_rows(f"Marian, {opus.name}", figures)
        for name, options in (("trained", ()), ("random", ("--random",))):
            made = new_folder(work, f"transformers-{name}")
            figures = transformers_mt.check(
                flags.python, folders[0], lines[:60], made, *options
            )
            print_rows(f"transformers, {name}", figures)


def check_without_text(flags: argparse.Namespace, work: pathlib.Path) -> None:
    """Prints the figures of models that need no text of the grammar."""
    if flags.m2m100:
        for name, figures in m2m100_models.check(flags.m2m100, work, flags.lines):
            print_rows(f"transformers, {name}", figures)
    if flags.ctranslate2:
        figures = ctranslate2_models.check(flags.ctranslate2, flags.lines, work)
        print_rows("CTranslate2", figures)
    if flags.tensor2tensor:
        figures = tensor2tensor_models.check(flags.tensor2tensor, flags.lines, work)
        print_rows("Tensor2Tensor", figures)


def check_exports(
    flags: argparse.Namespace, lines: list[str], work: pathlib.Path
) -> None:
    """Compares exports with the models that they were written from."""
    for number, run in enumerate(flags.export):
        for toolkit, module in (
            ("transformers", transformers_export),
            ("Marian", marian_export),
        ):
            made = new_folder(work, f"export-{toolkit}-{number}")
            for name, figures in module.check(flags.python, run, lines, made):
                print_rows(f"export to {toolkit}, {name}", figures)


def check_argos(
    flags: argparse.Namespace, lines: list[str], work: pathlib.Path
) -> None:
    """Compares packages of Argos Translate with the models that they have."""
    for number, run in enumerate(flags.export):
        made = new_folder(work, f"export-argos-{number}")
        figures = argos_export.check(flags.argos, run, lines, made)
        print_rows(f"export to Argos Translate, {run.name}", figures)


def check_opennmt_tf(
    flags: argparse.Namespace, lines: list[str], work: pathlib.Path
) -> None:
    """Makes models with OpenNMT-tf unless they exist, and prints their figures."""
    models = (flags.opennmt_tf_models or work / "opennmt_tf").absolute()
    for kind, _ in opennmt_tf_models.MODELS:
        folder = models / kind
        if not folder.is_dir():
            opennmt_tf_models.train(flags.opennmt_tf, kind, flags.text, folder)
        made = new_folder(work, f"opennmt_tf-{kind}")
        figures = opennmt_tf_models.check(flags.opennmt_tf, folder, kind, lines, made)
        print_rows(f"OpenNMT-tf, {kind}", figures)


def train(
    flags: argparse.Namespace, work: pathlib.Path, name: str, options: tuple[str, ...]
) -> pathlib.Path:
    """Trains a model with Marian, and returns its folder."""
    folder = work / name
    program = ROOT / "examples/make_opus_mt.py"
    command = [flags.python, str(program), str(flags.text), str(folder), *options]
    subprocess.run(command, check=True)
    return folder


def new_folder(work: pathlib.Path, name: str) -> pathlib.Path:
    """Returns an empty folder."""
    (work / name).mkdir()
    return work / name


def print_rows(name: str, figures: dict[str, str]) -> None:
    """Prints a row of a Markdown table for each figure."""
    for what, figure in figures.items():
        print(f"| {name} | {what} | {figure} |", flush=True)


if __name__ == "__main__":
    main()
