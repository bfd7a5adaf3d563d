"""Makes more trees of a small treebank, to train a parser on beside it.

    python -m t2t_keras.recombine --treebank=train.mrg --output=recombined.mrg
    python -m t2t_keras.train --flagfile=configs/parsing_sample.flags \\
        --model_dir=runs/parser --train_source=train.mrg --dev_source=dev.mrg \\
        --mixture=recombined.mrg:1/6

Phrases of the treebank come first, each once; then its sentences, --copies of each,
in which phrases have changed places with others of their label. Give it training
trees alone: a dev set that is in its own training data says nothing.
"""

import sys

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.files.lines import open_input, open_output
from t2t_keras.settings import program

_TREEBANK = flags.DEFINE_string(
    "treebank", None, "File of trees in Penn Treebank brackets, plain or .gz. Required."
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "File to write, one tree a line, replaced if it exists. Required."
)
_COPIES = flags.DEFINE_integer(
    "copies", 10, "Number of new sentences made from each sentence.", 0
)
_SEED = flags.DEFINE_integer(
    "seed", 1, "Seed of the random choice of phrases that change places.", 0
)


def main() -> int:
    """Makes trees; returns the exit status."""
    import numpy as np

    from t2t_keras.parsing.cleaning import clean_tree
    from t2t_keras.parsing.recombination import Recombination, phrases
    from t2t_keras.parsing.trees import read_trees

    path, output = program.require_flag("treebank"), program.require_flag("output")
    with open_input(path, "treebank") as source:
        lines = (line.decode("utf-8", errors="replace") for line in source)
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
    made = f"{output}: {counts[0]:,} phrases and {counts[1]:,} sentences"
    print(made, file=sys.stderr)
    return 0


def _check() -> None:
    """Raises `UserError` if flags are missing."""
    program.require_flag("treebank")
    program.require_flag("output")


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
