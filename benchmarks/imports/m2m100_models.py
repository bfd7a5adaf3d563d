"""Imports of M2M100 and NLLB against transformers: logits, greedy and beam search."""

import itertools
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.imports.routes import count_equal, run_program
from t2t_keras import Run
from t2t_keras.text.padding import pad_sentences, shift_right

PROGRAM = Path(__file__).with_name("oracle_m2m100.py")
# Source and target language of each kind.
LANGUAGES = {"m2m100": ("de", "fr"), "nllb": ("deu_Latn", "fra_Latn")}
# Longest translation beyond its source, as in the oracle.
EXTRA = 20
# With accents, other scripts, symbols, and characters that no piece has.
_WORDS = (
    "der und ein nicht Stra\u00dfe gr\u00f6\u00dfer d\u00e9j\u00e0 ma\u00f1ana "
    "\u043f\u0440\u0438\u0432\u0435\u0442 \u03b3\u03b1\u03b2 \u4e00\u4e01 \u65e5\u672c "
    "\u03a9mega \u0301 \U0001f642 \ufb01ne x1 e-mail don't (ja) 3.14 a,b"
).split()


def made_up_lines(count: int, seed: int = 7) -> list[str]:
    """Returns lines of words, some with characters that no piece has."""
    generator = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyzäöü"
    lines = []
    for _ in range(count):
        words = [
            generator.choice(_WORDS)
            if generator.random() < 0.3
            else "".join(generator.choices(letters, k=generator.randrange(1, 9)))
            for _ in range(generator.randrange(1, 12))
        ]
        lines.append(" ".join(words))
    return lines


def toy_sentences(count: int, seed: int) -> list[dict[str, str]]:
    """Returns sentences, each in three toy languages with the codes of real ones.

    English is the order of the concepts, German the reverse, French has the last first.
    Words share no beginning.
    """
    generator = random.Random(seed)
    syllables = [c + v for c in "bdgk" for v in "aeiou"]
    sentences = []
    for _ in range(count):
        concepts = generator.sample(range(len(syllables)), generator.randrange(2, 6))
        words = [syllables[concept] for concept in concepts]
        sentences.append(
            {
                "en": " ".join(f"e{word}" for word in words),
                "de": " ".join(f"t{word}sch" for word in reversed(words)),
                "fr": " ".join(f"v{word}x" for word in [words[-1], *words[:-1]]),
            }
        )
    return sentences


def train(python: str, folder: Path, work: Path) -> None:
    """Trains a small M2M100 on three toy languages; `python` has torch."""
    pairs = [
        (source, target, sentence[source], sentence[target])
        for sentence in toy_sentences(4000, seed=1)
        for source, target in itertools.permutations(sentence, 2)
    ]
    text = work / "toy.json"
    text.write_text(json.dumps(pairs))
    subprocess.run([python, str(PROGRAM), "train", str(folder), str(text)], check=True)


def make(python: str, kind: str, folder: Path) -> None:
    """Makes a model of random weights; `python` has torch and transformers."""
    subprocess.run([python, str(PROGRAM), "make", kind, str(folder)], check=True)


def ask(
    python: str, folder: Path, lines: Sequence[str], work: Path, pair: tuple[str, str]
) -> tuple[dict, dict[str, np.ndarray]]:
    """Returns what transformers answers: ids and translations, and logits."""
    text, answers = work / "lines.txt", work / f"{'-'.join(pair)}.json"
    text.write_text("".join(f"{line}\n" for line in lines))
    command = [python, str(PROGRAM), "answer", str(folder), str(text), str(answers)]
    subprocess.run([*command, *pair], check=True)
    with np.load(answers.with_suffix(".npz")) as logits:
        return json.loads(answers.read_text()), dict(logits)


def convert(folder: Path, model_dir: Path, pair: tuple[str, str], *flags: str) -> Run:
    """Imports a model, with the languages of a request that names none."""
    run_program(
        "convert",
        "--from=transformers",
        f"--input={folder}",
        f"--model_dir={model_dir}",
        f"--source_language={pair[0]}",
        f"--target_language={pair[1]}",
        *flags,
    )
    return Run(model_dir)


def compare(
    run: Run,
    lines: Sequence[str],
    answers: tuple[dict, dict[str, np.ndarray]],
    pair: tuple[str, str],
) -> dict[str, str]:
    """Returns the figures of an import in one pair of languages."""
    expected, logits = answers
    run = run.for_languages(*pair)
    trained = run.trained("latest")
    originals = run.model_dir.run_card()["import"]["original_ids"]
    own = {original: i for i, original in enumerate(originals)}
    error = largest = 0.0
    for number, (source, target) in enumerate(expected["pairs"]):
        ids = [pad_sentences([[own[i] for i in side]]) for side in (source, target)]
        found = trained.model(
            {
                "encoder_input_tokens": ids[0],
                "decoder_input_tokens": shift_right(ids[1]),
            }
        )
        theirs = logits[str(number)][:, originals]
        error = max(error, float(np.abs(np.array(found)[0] - theirs).max()))
        largest = max(largest, float(np.abs(theirs).max()))
    ids = [
        [own[i] for i in each] == trained.vocabulary.source.encode(line)
        for each, line in zip(expected["source_ids"], lines, strict=True)
    ]
    targets = [
        trained.vocabulary.encode(lines[i - 1]) == [own[id_] for id_ in target]
        for i, (_, target) in enumerate(expected["pairs"])
    ]
    figures = {
        "source ids": f"{sum(ids)} of {len(ids)}",
        "target ids": f"{sum(targets)} of {len(targets)}",
        "logits": f"up to {largest:.1f}, largest difference {error:.1e}",
    }
    for name, beam_size in (("greedy", 1), ("beam", 4)):
        found = [
            line.text
            for line in run.translate(
                lines,
                beam_size=beam_size,
                length_penalty="power",
                alpha=1.0,
                extra_length=EXTRA,
            )
        ]
        found = found[: len(expected[name])]
        figures[name] = count_equal(found, [each["text"] for each in expected[name]])
        # At the limit transformers ends a translation with the log probability 0.
        ended = [
            (text, each["text"])
            for text, each in zip(found, expected[name], strict=True)
            if each["tokens"] < each["limit"]
        ]
        if ended and len(ended) < len(found):
            figures[f"{name}, ended before the limit"] = count_equal(
                [text for text, _ in ended], [text for _, text in ended]
            )
    return figures


def check(python: str, work: Path, count: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the name and the figures of each model.

    Args:
        python: Interpreter with torch, transformers, sentencepiece and protobuf.
        work: Empty folder for what this writes.
        count: Number of lines to translate.
    """
    for kind, pair in LANGUAGES.items():
        folder = work / kind
        folder.mkdir()
        make(python, kind, folder / "theirs")
        lines = made_up_lines(count)
        run = convert(folder / "theirs", folder / "run", pair)
        answers = ask(python, folder / "theirs", lines, folder, pair)
        yield kind, compare(run, lines, answers, pair)
        yield f"{kind}, trimmed", _compare_trimmed(folder, run, lines, pair)
    yield "M2M100, trained", _check_trained(python, work / "trained", count)
    yield "m2m100_418M, true size", _check_memory(python, work / "true")


def _check_trained(python: str, folder: Path, count: int) -> dict[str, str]:
    """Returns figures of a small M2M100 of three toy languages."""
    folder.mkdir()
    train(python, folder / "theirs", folder)
    run = convert(folder / "theirs", folder / "run", ("de", "en"))
    sentences = toy_sentences(count, seed=2)
    figures = {}
    for pair in itertools.permutations(("de", "en", "fr"), 2):
        lines, wanted = ([each[code] for each in sentences] for code in pair)
        answers = ask(python, folder / "theirs", lines, folder, pair)
        found = compare(run, lines, answers, pair)
        figures |= {f"{'-'.join(pair)}, {name}": each for name, each in found.items()}
        found = [line.text for line in run.for_languages(*pair).translate(lines)]
        figures[f"{'-'.join(pair)}, right"] = count_equal(found, wanted)
        # The other language of the three.
        (other,) = {"de", "en", "fr"} - {*pair}
        translated = run.for_languages(pair[0], other).translate(lines)
        wrong = sum(
            line.text != text for line, text in zip(translated, found, strict=True)
        )
        figures[f"{'-'.join(pair)}, changed by the code {other}"] = f"{wrong}"
    lines = [each["de"] for each in sentences]
    figures |= _compare_trimmed(
        folder, run, lines, ("de", "en"), [each["en"] for each in sentences]
    )
    return figures


def _compare_trimmed(
    folder: Path,
    run: Run,
    lines: Sequence[str],
    pair: tuple[str, str],
    targets: Sequence[str] = (),
) -> dict[str, str]:
    """Returns figures of the same model with the vocabulary of some lines."""
    text = folder / "kept.txt"
    text.write_text("".join(f"{line}\n" for line in (*lines, *targets)))
    flag = f"--keep_vocabulary={text}"
    smaller = convert(folder / "theirs", folder / "trimmed", pair, flag)
    own, kept = run.vocabulary, smaller.vocabulary
    numbers = {piece: i for i, piece in enumerate(own.pieces(range(own.size)))}
    rows = [numbers[piece] for piece in kept.pieces(range(kept.size))]
    ids = [[rows[i] for i in kept.source.encode(line)] for line in lines]
    same = [
        each == own.source.encode(line) for each, line in zip(ids, lines, strict=True)
    ]
    figures = {
        "pieces": f"{kept.size:,} of {own.size:,}",
        "source ids": f"{sum(same)} of {len(same)}",
    }
    for beam_size in (1, 4) if targets else ():
        both = [
            [line.text for line in each.translate(lines, beam_size=beam_size)]
            for each in (run, smaller)
        ]
        figures[f"trimmed, beam {beam_size}"] = count_equal(*both)
    return figures


def _check_memory(python: str, folder: Path) -> dict[str, str]:
    """Returns the peak memory of an import of the true size."""
    folder.mkdir()
    make(python, "m2m100_418M", folder / "theirs")
    command = [sys.executable, "-m", "t2t_keras.convert", "--from=transformers"]
    command += [f"--input={folder / 'theirs'}", f"--model_dir={folder / 'run'}"]
    command += ["--source_language=en", "--target_language=de"]
    peak = 0.0
    process = subprocess.Popen(command)
    # Not that of `wait4`, which counts what this process had when it started another.
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        peak = max(peak, int(found[1]) / 1024 if found else 0.0)
        time.sleep(0.05)
    if process.returncode:
        raise RuntimeError("convert failed")
    size = (folder / "theirs/model.safetensors").stat().st_size
    return {
        "peak memory of convert": f"{peak:,.0f} MiB, the weights "
        f"{size / 2**20:,.0f} MiB"
    }
