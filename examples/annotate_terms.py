"""Writes terms of the target language beside words of the source, for a glossary.

    python examples/annotate_terms.py --align=train.align train.en train.de > terms.tsv
    python examples/annotate_terms.py --glossary=glossary.tsv < test.en > annotated.en

The first form makes training text: in each pair one or two source words that are
aligned with one target word are annotated with it. A pair without any is left out. The
second annotates the words of a glossary, whose lines have a source word, a tab and a
term. "the teacher" becomes "the <t> teacher <is> Lehrer </t>".
"""

import argparse
import collections
import random
import string
import sys
from collections.abc import Mapping, Sequence


def annotate(words: Sequence[str], terms: Mapping[int, str]) -> str:
    """Returns a text whose words of these numbers have terms beside them."""
    return " ".join(
        f"<t> {word} <is> {terms[i]} </t>" if i in terms else word
        for i, word in enumerate(words)
    )


def find_terms(source: Sequence[str], target: Sequence[str], links: str) -> dict:
    """Returns the target word of each source word that has one, and is its only one."""
    pairs = [tuple(map(int, link.split("-"))) for link in links.split() if "-" in link]
    sources = collections.Counter(i for i, _ in pairs)
    targets = collections.Counter(j for _, j in pairs)
    return {
        i: target[j].strip(string.punctuation)
        for i, j in pairs
        if sources[i] == targets[j] == 1 and target[j].strip(string.punctuation)
    }


def main() -> None:
    """Annotates files, or standard input with a glossary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--align", help="word alignment of the files, Pharaoh format")
    parser.add_argument("--glossary", help="file of words and terms")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("files", nargs="*", help="source and target text")
    args = parser.parse_args()
    if args.glossary:
        with open(args.glossary, encoding="utf-8") as file:
            glossary = dict(line.rstrip("\n").split("\t") for line in file)
        for line in sys.stdin:
            words = line.split()
            bare = [word.strip(string.punctuation) for word in words]
            found = {i: glossary[x] for i, x in enumerate(bare) if x in glossary}
            print(annotate(words, found))
        return
    if not args.align or len(args.files) != 2:
        parser.error("give --glossary, or --align and two files")
    rng = random.Random(args.seed)
    paths = *args.files, args.align
    source, target, align = (open(path, encoding="utf-8") for path in paths)
    with source, target, align:
        for *texts, links in zip(source, target, align, strict=True):
            words, translated = (text.split() for text in texts)
            terms = find_terms(words, translated, links)
            chosen = rng.sample(sorted(terms), min(len(terms), rng.randint(1, 2)))
            if chosen:
                text = annotate(words, {i: terms[i] for i in chosen})
                print(text, " ".join(translated), sep="\t")


if __name__ == "__main__":
    main()
