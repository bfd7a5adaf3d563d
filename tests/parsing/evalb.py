"""Comparison with EVALB on random pairs of trees that are hard to score.

    python -m tests.parsing.evalb EVALB COLLINS.prm [PAIRS] [TREES.mrg]

compares this project's scores with those of the program on random pairs, and on trees
of a treebank and damaged copies of them, and prints the first difference.
"""

import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from t2t_keras.parsing.bracket_scores import sentence_scores
from t2t_keras.parsing.tree_scores import evalb_table
from t2t_keras.parsing.trees import Step, Tree, build_trees, read_trees, walk

LABELS = ("S", "NP", "VP", "ADVP", "PRT", "TOP", "NP-SBJ", "PRT=2", "-NONE-", "A-1", "")
TAGS = ("NN", "DT", "ADVP", "PRT", "NN-1", ",", ".", ":", "``", "''", "-LRB-", "$")
TRACES = ("-NONE-", "TOP")
WORDS = ("dog", "cat", ".", ",", "''", "``", "-LRB-", "%")


def random_tree(draw: random.Random, depth: int = 0) -> Tree:
    children = []
    for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 4))):
        if depth < 9 and draw.random() < 0.55:
            children.append(random_tree(draw, depth + 1))
        else:
            tags = TRACES if draw.random() < 0.05 else TAGS
            children.append(Tree(draw.choice(tags), word=draw.choice(WORDS)))
    return Tree(draw.choice(LABELS), tuple(children))


def damage_tree(tree: Tree, draw: random.Random, rate: float) -> Tree | None:
    """Returns a tree with labels, tags, words and brackets changed or repeated."""
    steps: list[Step] = []
    copies: list[int] = []
    for step in walk(tree):
        if isinstance(step, Tree):
            tag = draw.choice(TAGS) if draw.random() < rate / 4 else step.label
            word = draw.choice(WORDS) if draw.random() < rate / 40 else step.word
            number = draw.choice((0, 2)) if draw.random() < rate / 40 else 1
            steps.extend([Tree(tag, word=word)] * number)
        elif step is None:
            steps.extend([None] * copies.pop())
        else:
            label = draw.choice(LABELS) if draw.random() < rate else step
            copies.append(draw.choice((0, 2)) if draw.random() < rate else 1)
            steps.extend([label] * copies[-1])
    trees = build_trees(steps)
    if len(trees) == 1 and trees[0].word is None:
        return trees[0]
    return Tree("TOP", tuple(trees)) if trees else None


def random_pairs(seed: int, pairs: int) -> list[tuple[Tree, Tree | None]]:
    draw = random.Random(seed)
    trees = []
    for _ in range(pairs):
        gold = random_tree(draw)
        rate = draw.choice((0.0, 0.1, 0.3, 0.6))
        test = damage_tree(gold, draw, rate)
        if draw.random() < 0.05:
            test = draw.choice((None, random_tree(draw)))
        if draw.random() < 0.5:
            test = regroup_words(gold, draw)
        trees.append((gold, test))
    return trees


def regroup_words(tree: Tree, draw: random.Random) -> Tree:
    """Returns a tree with other constituents over the same words and tags."""
    trees = list(tree.leaves())
    for _ in range(draw.randint(0, 8)):
        start = draw.randrange(len(trees))
        end = draw.randint(start + 1, len(trees))
        trees[start:end] = [Tree(draw.choice(LABELS), tuple(trees[start:end]))]
    return Tree(draw.choice(LABELS), tuple(trees))


def fits_evalb(gold: Tree, test: Tree | None) -> bool:
    """Returns whether a pair is within EVALB's fixed limits."""
    return all(
        len(line) < 4_900 and line.count("(") < 195
        for line in (str(gold), str(test or ""))
    )


def run_evalb(program: str, parameters: str, pairs, errors: int = 10_000_000) -> str:
    """Returns EVALB's output, NaNs without a sign, which depends on the compiler."""
    with tempfile.TemporaryDirectory() as folder:
        gold, test = Path(folder, "gold"), Path(folder, "test")
        gold.write_text("".join(f"{one}\n" for one, _ in pairs))
        test.write_text("".join(f"{other or '(())'}\n" for _, other in pairs))
        command = [program, "-p", parameters, "-e", str(errors), str(gold), str(test)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return re.sub("  ?-?nan", "   nan", ran.stdout)


def own_table(pairs) -> str:
    scores = sentence_scores(
        (one for one, _ in pairs), (other for _, other in pairs), most_errors=None
    )
    return re.sub(" +nan", "    nan", evalb_table(list(scores)))


def first_difference(one: str, other: str, pairs) -> str:
    for number, lines in enumerate(
        zip(one.splitlines(), other.splitlines(), strict=True)
    ):
        if lines[0] != lines[1]:
            pair = pairs[number - 3] if number - 3 < len(pairs) else ("", "")
            return "\n".join(map(str, (*lines, *pair)))
    return ""


def main(program: str, parameters: str, count: str = "2000", treebank: str = "") -> int:
    sets = {f"seed {seed}": random_pairs(seed, int(count) // 5) for seed in range(5)}
    if treebank:
        draw = random.Random(0)
        trees = list(read_trees(Path(treebank).read_text().splitlines(), treebank))
        sets["treebank"] = [
            (tree, damage_tree(tree, draw, draw.choice((0.0, 0.02, 0.1, 0.4))))
            for tree in trees
        ]
    for name, pairs in sets.items():
        pairs = [pair for pair in pairs if fits_evalb(*pair)]
        theirs, ours = run_evalb(program, parameters, pairs), own_table(pairs)
        print(f"{name}: {len(pairs)} pairs,", "equal" if theirs == ours else "differ")
        print("   ", " ".join(theirs[theirs.index("-- All") :].split()[2:26]))
        if theirs != ours:
            print(first_difference(theirs, ours, pairs))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
