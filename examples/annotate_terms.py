"""Writes terms of the target language beside words of the source.

    python examples/annotate_terms.py --align=train.align train.en train.de > terms.tsv
    python examples/annotate_terms.py --glossary=glossary.tsv < test.en > annotated.en

The first form makes training text. In each pair one or two target words that have one
link are replaced by made-up words, which are also written beside their source words: so
a model learns to copy what it has never seen. A pair without such a word is left out.
The second form annotates the words of a glossary, whose lines have a source word, a tab
and a term. "teacher" becomes "<t> teacher <is> Dozent </t>".
"""

import argparse
import collections
import random
import re
from collections.abc import Sequence

from t2t_keras.files.lines import open_input
from t2t_keras.text.word_alignments import WordAlignment, parse_alignments


def bare(word: str) -> str:
    """Returns a word without the punctuation around it."""
    return re.sub(r"^\W+|\W+$", "", word)


def annotate(word: str, term: str) -> str:
    """Returns a source word with a term beside it; punctuation stays outside."""
    return word.replace(bare(word), f"<t> {bare(word)} <is> {term} </t>", 1)


def one_to_one(links: WordAlignment) -> list[tuple[int, int]]:
    """Returns the sure links between words that have no other."""
    sources = collections.Counter(i for i, _ in links.sure)
    targets = collections.Counter(j for _, j in links.sure)
    return [(i, j) for i, j in sorted(links.sure) if sources[i] == targets[j] == 1]


def make_up(rng: random.Random, words: Sequence[str], like: str) -> str:
    """Returns beginning, middle and end of random words, with the case of another."""
    made = rng.choice(words)[: rng.randint(1, 5)]
    for _ in range(rng.randint(0, 2)):
        word = rng.choice(words)
        start = rng.randrange(len(word))
        made += word[start : start + rng.randint(1, 3)]
    made += rng.choice(words)[-rng.randint(1, 4) :]
    return made.capitalize() if like[0].isupper() else made.lower()


def print_training_text(args: argparse.Namespace) -> None:
    """Prints pairs with annotated sources and made-up targets, separated by tabs."""
    texts = []
    for path in args.files:
        with open_input(path) as lines:
            texts.append([line.decode("utf-8").split() for line in lines])
    with open_input(args.align, "align") as lines:
        alignments = list(parse_alignments(lines, args.align))
    known = sorted({bare(word) for line in texts[1] for word in line} - {""})
    rng = random.Random(args.seed)
    for source, target, links in zip(*texts, alignments, strict=True):
        found = [(i, j) for i, j in one_to_one(links) if bare(source[i])]
        found = [(i, j) for i, j in found if bare(target[j])]
        for i, j in rng.sample(found, min(len(found), rng.randint(1, 2))):
            term = make_up(rng, known, like=bare(target[j]))
            source[i] = annotate(source[i], term)
            target[j] = target[j].replace(bare(target[j]), term, 1)
        if found:
            print(" ".join(source), " ".join(target), sep="\t")


def print_annotated(path: str) -> None:
    """Prints standard input with the terms of a glossary."""
    with open_input(path, "glossary") as lines:
        glossary = dict(line.decode("utf-8").split("\t") for line in lines)
    with open_input("-") as lines:
        for line in lines:
            words = line.decode("utf-8").split()
            terms = [glossary.get(bare(word)) for word in words]
            both = zip(words, terms, strict=True)
            print(*(annotate(word, term) if term else word for word, term in both))


def main() -> None:
    """Annotates files, or standard input with a glossary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--align", help="word alignment of the files, Pharaoh format")
    parser.add_argument("--glossary", help="file of words and terms")
    parser.add_argument("--seed", type=int, default=1, help="seed of the made-up words")
    parser.add_argument("files", nargs="*", help="source and target text")
    args = parser.parse_args()
    if args.glossary:
        print_annotated(args.glossary)
    elif args.align and len(args.files) == 2:
        print_training_text(args)
    else:
        parser.error("give --glossary, or --align and two files")


if __name__ == "__main__":
    main()
