"""Creates additional trees from a small treebank, to train a parser on both.

    python -m t2t_keras.recombine --treebank=train.mrg --output=recombined.mrg
    python -m t2t_keras.train --flagfile=configs/parsing_sample.flags \\
        --model_dir=runs/parser --train_source=train.mrg --dev_source=dev.mrg \\
        --mixture=recombined.mrg:1/6

The output has each phrase of the treebank once, then --copies of each sentence, in
which phrases are exchanged with others of the same label. Use training trees only: a
dev set that is part of the training data is not a valid measure.
"""

import sys

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.files.lines import CountedLines, open_input, open_output
from t2t_keras.settings import program

_TREEBANK = flags.DEFINE_string(
    "treebank",
    None,
    "File of trees in Penn Treebank brackets, plain, .gz, .xz or .bz2. Required.",
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "File to write, one tree a line, replaced if it exists. Required."
)
_COPIES = flags.DEFINE_integer(
    "copies", 10, "Number of new sentences from each sentence.", 0
)
_SEED = flags.DEFINE_integer(
    "seed", 1, "Seed of the random choice of phrases to exchange.", 0
)


def main() -> int:
    """Writes the trees; returns the exit status."""
    import numpy as np

    from t2t_keras.parsing.recombination import Recombination, phrases
    from t2t_keras.parsing.trees import clean_tree, read_trees

    path, output = program.require_flag("treebank"), program.require_flag("output")
    with open_input(path, "treebank") as source:
        counted = CountedLines(source, path)
        lines = (line.decode("utf-8", errors="replace") for line in counted)
        trees = [tree for tree in map(clean_tree, read_trees(lines, path)) if tree]
    if not trees:
        raise UserError(f"{path} holds no tree with a word in it (--treebank).")
    recombination = Recombination(trees)
    rng = np.random.default_rng(_SEED.value)
    counts = [0, 0]
    with open_output(output) as target:
        for tree in phrases(trees):
            target.write(f"{tree}\n")
            counts[0] += 1
        for _ in range(_COPIES.value):
            for tree in trees:
                target.write(f"{recombination.exchange(tree, rng)}\n")
                counts[1] += 1
    summary = f"{output}: {counts[0]:,} phrases and {counts[1]:,} sentences"
    print(summary, file=sys.stderr)
    return 0


def _check() -> None:
    """Raises `UserError` if flags are missing."""
    program.require_flag("treebank")
    program.require_flag("output")


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
