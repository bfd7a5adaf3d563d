"""Placeholders in requests: how many lines keep them, and BLEU of those lines.

    python -m benchmarks.terms --model_dir=runs/tiny

puts one to three placeholders, tags or addresses into random gaps between the words of
500 lines of the test set. It prints, for translations with and without --protect, the
percentage of lines that have each of them once, and BLEU of the translations without
them, against the same references as those of the lines as they were.
"""

import argparse
import random
import time
from collections.abc import Sequence

from t2t_keras import Run
from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.runs.translation import scoring
from t2t_keras.text.protected_spans import keeps_spans, without_spans

SEED, LINES = 7, 500
SPANS = (
    "{name}",
    "{0}",
    "{{ user }}",
    "${HOME}",
    "%s",
    "%1$s",
    "%(count)d",
    "<1>",
    "<br/>",
    "https://example.com/a?b=1",
    "www.example.org/x_(y)",
    "anna.b@example.com",
)


def main() -> None:
    """Translates and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_dir", default="runs/tiny")
    args = parser.parse_args()
    run = Run(args.model_dir)
    sources, references = _read_test_set(run)
    with_spans = put_spans(sources, SEED)
    print(f"{'lines':<24}{'kept %':>8}{'BLEU':>8}{'seconds':>9}")
    for title, lines, protect in (
        ("as they were", sources, False),
        ("as they were, protected", sources, True),
        ("with spans", with_spans, False),
        ("with spans, protected", with_spans, True),
    ):
        next(run.translate(lines[:1], protect=protect))  # traces the search
        start = time.perf_counter()
        found = [each.text for each in run.translate(lines, protect=protect)]
        seconds = time.perf_counter() - start
        kept = [*map(keeps_spans, lines, found)]
        rests = [each if lines is sources else without_spans(each) for each in found]
        bleu = corpus_scores(rests, references).headline[1]
        percent = 100 * sum(kept) / len(kept)
        print(f"{title:<24}{percent:>8.1f}{bleu:>8.2f}{seconds:>9.1f}")


def put_spans(sentences: Sequence[str], seed: int) -> list[str]:
    """Returns sentences, each with one to three spans at random gaps between words."""
    draw = random.Random(seed)
    lines = []
    for sentence in sentences:
        words = sentence.split(" ")
        for span in draw.sample(SPANS, draw.randint(1, 3)):
            words.insert(draw.randint(0, len(words)), span)
        lines.append(" ".join(words))
    return lines


def _read_test_set(run: Run) -> tuple[list[str], list[str]]:
    data = run.settings.data
    languages = data.source_language, data.target_language
    test_set = scoring.read_test_set(run.model_dir, "test", languages=languages)
    sources = [each.decode() for each in test_set.source[:LINES]]
    return sources, list(test_set.references[:LINES])


if __name__ == "__main__":
    main()
