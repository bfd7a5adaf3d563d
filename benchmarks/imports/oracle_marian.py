"""Translates with Marian, for `benchmarks.imports.marian`: pieces and their scores.

    python oracle_marian.py FOLDER LINES OUTPUT.json

FOLDER is one of OPUS-MT's layout. Only pymarian and sentencepiece are needed.
"""

import json
import pathlib
import sys

import pymarian
import sentencepiece


def main(folder: pathlib.Path, lines: pathlib.Path, output: pathlib.Path) -> None:
    """Writes the translations of each line, best first, by beam and greedy search."""
    processors = [
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        for side in ("source", "target")
    ]
    texts = lines.read_text("utf-8").splitlines()
    segmented = [" ".join(pieces) for pieces in processors[0].encode(texts, str)]
    results = {}
    for name, beam_size in (("beam", 6), ("greedy", 1)):
        translator = pymarian.Translator(
            models=[str(folder / "model.npz")],
            vocabs=[str(folder / "vocab.yml")] * 2,
            beam_size=beam_size,
            normalize=1,
            n_best=True,
            word_scores=True,
            mini_batch=1,
            cpu_threads=1,
            quiet=True,
        )
        results[name] = [[] for _ in texts]
        for answer in translator.translate(segmented):
            number, found = parse(answer, processors[1])
            results[name][number].append(found)
    output.write_text(json.dumps(results))


def parse(
    answer: str, processor: sentencepiece.SentencePieceProcessor
) -> tuple[int, dict]:
    """Returns the number of a line and a translation: pieces, log probs and text."""
    number, pieces, scores, *_ = answer.split(" ||| ")
    words = pieces.split()
    return int(number), {
        "pieces": words,
        "scores": [float(each) for each in scores.split()[1:]],
        "text": processor.decode_pieces(words).replace("\u2581", " ").strip(),
    }


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
