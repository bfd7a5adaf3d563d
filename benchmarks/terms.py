"""Placeholders and glossaries in requests: what is kept, BLEU, and the cost in time.

    python -m benchmarks.terms --model_dir=runs/tiny

Placeholders: one to three placeholders, tags or addresses are put into random gaps
between the words of 500 lines of the test set. For translations with and without
--protect it prints the percentage of lines that have each of them once, and BLEU of the
translations without them, against the same references as those of the lines as they
were.

Terms: one or two words of each reference are terms that the translation must have, as
in Post and Vilar 2018. It prints the percentage of terms in the translations of a
search without them and of one with them, and BLEU of both. Then a server of an export
with --terms is asked for the same, in requests of 32 lines. The last row has a glossary
of words that are in no training text.
"""

import argparse
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.server_process import started_server
from t2t_keras import Run, TranslationClient
from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.runs import translators
from t2t_keras.runs.translation import scoring
from t2t_keras.runs.translation.glossary_translation import widen_beam
from t2t_keras.serving.client.translation_client import TranslatedText
from t2t_keras.text.protected_spans import keeps_spans, without_spans
from t2t_keras.text.term_encoder import TermEncoder

SEED, LINES, BATCH = 7, 500, 32
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
UNSEEN = {
    "teacher": "Dozent",
    "dog": "Terrier",
    "child": "Knirps",
    "car": "Fahrzeug",
    "house": "Anwesen",
    "doctor": "Chirurg",
    "book": "Taschenbuch",
    "garden": "Vorgarten",
}


def main() -> None:
    """Translates and prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_dir", default="runs/tiny")
    args = parser.parse_args()
    run = Run(args.model_dir)
    sources, references = _read_test_set(run)
    measure_placeholders(run, sources, references)
    measure_terms(run, sources, references)
    measure_unseen(run, sources)


def measure_placeholders(
    run: Run, sources: Sequence[str], references: Sequence[str]
) -> None:
    """Prints how many lines keep their spans."""
    with_spans = put_spans(sources, SEED)
    print(f"{'lines':<26}{'kept %':>8}{'BLEU':>8}{'seconds':>9}")
    for title, lines, protect in (
        ("as they were", sources, False),
        ("as they were, protected", sources, True),
        ("with spans", with_spans, False),
        ("with spans, protected", with_spans, True),
    ):

        def translate(
            lines: Sequence[str] = lines, protect: bool = protect
        ) -> list[str]:
            return [each.text for each in run.translate(lines, protect=protect)]

        found, seconds = _timed(translate)
        kept = [*map(keeps_spans, lines, found)]
        rests = [each if lines is sources else without_spans(each) for each in found]
        bleu = corpus_scores(rests, references).headline[1]
        percent = 100 * sum(kept) / len(kept)
        print(f"{title:<26}{percent:>8.1f}{bleu:>8.2f}{seconds:>9.1f}")


def measure_terms(run: Run, sources: Sequence[str], references: Sequence[str]) -> None:
    """Prints how many words of the references are in searches with and without them."""
    trained, decoding = run.trained(), run.settings.decoding
    terms = draw_words(references, SEED)
    encode = TermEncoder(trained.vocabulary).encode
    ids = [[encode(word) for word in words] for words in terms]
    plain = translators.text_translator(trained, decoding)
    wide = translators.text_translator(trained, widen_beam(decoding))
    forced = translators.text_translator(trained, widen_beam(decoding), with_terms=True)
    total = sum(map(len, terms))
    print(f"\n{f'{total} terms of references':<26}{'in %':>8}{'BLEU':>8}{'seconds':>9}")

    def report(title: str, translate: Callable[[], list]) -> None:
        found, seconds = _timed(translate)
        texts = [each.text for each in found]
        met = sum(
            word in text
            for words, text in zip(terms, texts, strict=True)
            for word in words
        )
        bleu = corpus_scores(texts, references).headline[1]
        print(f"{title:<26}{100 * met / total:>8.1f}{bleu:>8.2f}{seconds:>9.1f}")

    report("free", lambda: plain.translate(sources))
    report("free, beam of twice as many", lambda: wide.translate(sources))
    report("forced", lambda: forced.translate(sources, terms=ids))
    version = run.export("text", terms=True)
    with (
        started_server(version.parent) as server,
        TranslationClient(server.address) as client,
    ):
        report("served, free", lambda: _ask(client, sources, None))
        report("served, forced", lambda: _ask(client, sources, terms))


def _ask(
    client: TranslationClient,
    sources: Sequence[str],
    terms: Sequence[Sequence[str]] | None,
) -> list[TranslatedText]:
    """Returns the best translations, asked for in batches."""
    best = []
    for start in range(0, len(sources), BATCH):
        batch = slice(start, start + BATCH)
        part = None if terms is None else terms[batch]
        answers = client.translate_n_best(sources[batch], terms=part)
        best += [answer[0] for answer in answers]
    return best


def measure_unseen(run: Run, sources: Sequence[str]) -> None:
    """Prints how many terms of a glossary of unknown words are in translations."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "glossary.tsv"
        path.write_text("".join(f"{one}\t{two}\n" for one, two in UNSEEN.items()))
        lines = [*run.translate(sources, glossary=path)]
    pattern = re.compile(rf"\b({'|'.join(UNSEEN)})\b", re.I)
    total = sum(len({m.lower() for m in pattern.findall(each)}) for each in sources)
    unmet = sum(len(line.unmet) for line in lines)
    print(f"{f'unseen: {total} terms':<26}{100 - 100 * unmet / total:>8.1f}")


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


def draw_words(sentences: Sequence[str], seed: int) -> list[list[str]]:
    """Returns one or two different words of each sentence."""
    draw = random.Random(seed)
    words = [sorted({*re.findall(r"\w+", each)}) for each in sentences]
    return [draw.sample(each, min(len(each), draw.randint(1, 2))) for each in words]


def _timed(translate: Callable[[], list]) -> tuple[list, float]:
    translate()  # traces the search
    start = time.perf_counter()
    return translate(), time.perf_counter() - start


def _read_test_set(run: Run) -> tuple[list[str], list[str]]:
    data = run.settings.data
    languages = data.source_language, data.target_language
    test_set = scoring.read_test_set(run.model_dir, "test", languages=languages)
    sources = [each.decode() for each in test_set.source[:LINES]]
    return sources, list(test_set.references[:LINES])


if __name__ == "__main__":
    main()
