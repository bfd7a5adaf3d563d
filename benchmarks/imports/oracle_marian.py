"""Translates with Marian, for `benchmarks.imports.marian`: pieces and their scores.

    python oracle_marian.py FOLDER LINES OUTPUT.json

FOLDER is one of OPUS-MT's layout, or has vocabularies that are SentencePiece models.
Only pymarian and sentencepiece are needed, and PyYAML, which pymarian needs too.
"""

import json
import pathlib
import sys

import pymarian
import sentencepiece
import yaml


def main(folder: pathlib.Path, lines: pathlib.Path, output: pathlib.Path) -> None:
    """Writes the translations of each line, best first, by beam and greedy search."""
    settings = yaml.safe_load((folder / "decoder.yml").read_text("utf-8"))
    vocabularies = [folder / name for name in settings["vocabs"]]
    # A vocabulary that is a SentencePiece model splits text itself.
    is_built_in = vocabularies[0].suffix == ".spm"
    sides = vocabularies
    if not is_built_in:
        sides = [folder / f"{side}.spm" for side in ("source", "target")]
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(path)) for path in sides
    )
    texts = lines.read_text("utf-8").splitlines()
    inputs = texts
    if not is_built_in:
        inputs = [" ".join(each) for each in source.encode(texts, out_type=str)]
    results = {}
    for name, beam_size in (("beam", 6), ("greedy", 1)):
        translator = pymarian.Translator(
            models=[str(folder / "model.npz")],
            vocabs=[str(path) for path in vocabularies],
            beam_size=beam_size,
            normalize=1,
            n_best=True,
            word_scores=True,
            allow_unk=settings.get("allow-unk", False),
            no_spm_decode=is_built_in,
            mini_batch=1,
            cpu_threads=1,
            quiet=True,
        )
        results[name] = [[] for _ in texts]
        for answer in translator.translate(inputs):
            number, found = parse(answer, target)
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
