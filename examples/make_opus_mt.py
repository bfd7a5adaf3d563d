"""Trains a small Marian model and writes it as a folder like those of OPUS-MT.

    python data/grammar_ende/write_text.py text
    python examples/make_opus_mt.py text opus-mt

It needs `pip install pymarian sentencepiece`. The folder has the files of a downloaded
OPUS-MT model: the weights, decoder.yml, the vocabulary of both languages, and a
SentencePiece model for each. docs/convert.md turns it into a translation server.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Sequence

import pymarian
import sentencepiece

LANGUAGES = ("en", "de")


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains and writes the folder; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=pathlib.Path, help="Folder of train.en, train.de.")
    parser.add_argument("folder", type=pathlib.Path, help="Folder to write.")
    parser.add_argument("--updates", type=int, default=1500, help="Default: 1500.")
    parser.add_argument("--layers", type=int, default=2, help="Default: 2.")
    parser.add_argument("--width", type=int, default=64, help="Default: 64.")
    parser.add_argument("--pieces", type=int, default=1000, help="Default: 1000.")
    parser.add_argument("--pre_norm", action="store_true", help="Pre-norm layers.")
    flags = parser.parse_args(arguments)
    flags.folder.mkdir(parents=True, exist_ok=True)
    pieces = ["</s>", "<unk>"]
    for side, language in zip(("source", "target"), LANGUAGES, strict=True):
        text, spm = flags.text / f"train.{language}", flags.folder / f"{side}.spm"
        segmented = flags.folder / f"train.{language}"
        pieces += segment(text, spm, segmented, flags.pieces)
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    # JSON is YAML. Marian writes the same with other quotes.
    (flags.folder / "vocab.yml").write_text(
        "".join(f"{json.dumps(piece)}: {i}\n" for piece, i in vocabulary.items())
    )
    train(flags, len(vocabulary))
    (flags.folder / "decoder.yml").write_text(
        "relative-paths: true\nmodels:\n  - model.npz\n"
        "vocabs:\n  - vocab.yml\n  - vocab.yml\n"
        "beam-size: 6\nnormalize: 1\nword-penalty: 0\nmini-batch: 1\nmaxi-batch: 1\n"
        "maxi-batch-sort: src\n"
    )
    for file in flags.folder.glob("model.npz.*"):
        file.unlink()
    return 0


def segment(
    text: pathlib.Path, spm: pathlib.Path, segmented: pathlib.Path, size: int
) -> list[str]:
    """Learns a SentencePiece model, writes the pieces of a text, and returns all."""
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(spm.with_suffix("")),
        vocab_size=size,
        model_type="unigram",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    spm.with_suffix(".model").rename(spm)
    spm.with_suffix(".vocab").unlink()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(spm))
    lines = processor.encode(text.read_text("utf-8").splitlines(), out_type=str)
    segmented.write_text("".join(f"{' '.join(line)}\n" for line in lines), "utf-8")
    return [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]


def train(flags: argparse.Namespace, vocabulary_size: int) -> None:
    """Trains a Transformer as OPUS-MT's are, but smaller."""
    norm = {"transformer_postprocess": "dan"}
    if flags.pre_norm:
        norm = {
            "transformer_preprocess": "n",
            "transformer_postprocess": "da",
            "transformer_postprocess_top": "n",
        }
    trainer = pymarian.Trainer(
        type="transformer",
        model=str(flags.folder / "model.npz"),
        train_sets=[str(flags.folder / f"train.{each}") for each in LANGUAGES],
        vocabs=[str(flags.folder / "vocab.yml")] * 2,
        dim_vocabs=[vocabulary_size] * 2,
        enc_depth=flags.layers,
        dec_depth=flags.layers,
        dim_emb=flags.width,
        transformer_dim_ffn=2 * flags.width,
        transformer_heads=4,
        transformer_ffn_activation="swish",
        tied_embeddings_all=True,
        label_smoothing=0.1,
        transformer_dropout=0.1,
        optimizer_params=[0.9, 0.98, 1e-9],
        learn_rate=0.003,
        lr_warmup=400,
        lr_decay_inv_sqrt=400,
        mini_batch_words=2000,
        mini_batch_fit=False,
        after_batches=flags.updates,
        cpu_threads=2,
        seed=1,
        overwrite=True,
        quiet=True,
        **norm,
    )
    trainer.train()


if __name__ == "__main__":
    sys.exit(main())
