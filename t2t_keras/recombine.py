"""Creates additional trees from a small treebank, to train a parser on both.

    python -m t2t_keras.recombine --treebank=train.mrg --output=recombined.mrg
    python -m t2t_keras.train --flagfile=configs/parsing_sample.flags \\
        --model_dir=runs/parser --train_source=train.mrg --dev_source=dev.mrg \\
        --mixture=recombined.mrg:1/6

The output has each phrase of the treebank once, then --copies of each sentence, in
which phrases are exchanged with others of the same label. Use training trees only: a
dev set that is part of the training data is not a valid measure.
"""

import dataclasses
import sys

from t2t_keras.errors import UserError
from t2t_keras.files.lines import open_input, open_output
from t2t_keras.files.text_checks import CountedLines
from t2t_keras.settings import program
from t2t_keras.settings.flags import define_flags
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class RecombineOptions(Settings):
    """The treebank, and how many sentences are made of it."""

    treebank: str | None = setting(
        None,
        "File of trees in Penn Treebank brackets, plain, .gz, .xz, .bz2 or .zst. "
        "Required.",
        path=True,
        required=True,
    )
    output: str | None = setting(
        None,
        "File to write, one tree a line, replaced if it exists. Required.",
        path=True,
        required=True,
    )
    copies: int = setting(10, "Number of new sentences from each sentence.", low=0)
    seed: int = setting(1, "Seed of the random choice of phrases to exchange.", low=0)


_OPTIONS = define_flags(RecombineOptions)


def main() -> int:
    """Writes the trees; returns the exit status."""
    import numpy as np

    from t2t_keras.parsing.recombination import Recombination, phrases
    from t2t_keras.parsing.trees import clean_tree, read_trees

    options = _OPTIONS.read()
    path, output = options.require("treebank"), options.require("output")
    with open_input(path, "treebank") as source:
        counted = CountedLines(source, path)
        lines = (line.decode("utf-8", errors="replace") for line in counted)
        trees = [tree for tree in map(clean_tree, read_trees(lines, path)) if tree]
    if not trees:
        raise UserError(f"{path} holds no tree with a word in it (--treebank).")
    recombination = Recombination(trees)
    rng = np.random.default_rng(options.seed)
    counts = [0, 0]
    with open_output(output) as target:
        for tree in phrases(trees):
            target.write(f"{tree}\n")
            counts[0] += 1
        for _ in range(options.copies):
            for tree in trees:
                target.write(f"{recombination.exchange(tree, rng)}\n")
                counts[1] += 1
    summary = f"{output}: {counts[0]:,} phrases and {counts[1]:,} sentences"
    print(summary, file=sys.stderr)
    return 0


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_OPTIONS.read)
