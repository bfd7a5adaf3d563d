"""Makes models of M2M100 and NLLB and translates with them: for `benchmarks.imports`.

    python oracle_m2m100.py make KIND FOLDER
    python oracle_m2m100.py train FOLDER TEXT
    python oracle_m2m100.py answer FOLDER LINES OUTPUT SOURCE TARGET

KIND is m2m100 or nllb: a model of random weights with the configuration of m2m100_418M
or nllb-200-distilled-600M but for width and number of layers, and a vocabulary of the
true size with made-up pieces; or m2m100_418M, with the true width and layers. `train`
trains a small M2M100 on pairs of TEXT, a JSON file of [source language, target
language, source, target]. `answer` writes ids, logits and translations of lines. Only
torch, transformers, sentencepiece and protobuf are needed.
"""

import json
import pathlib
import random
import sys

import numpy as np
import sentencepiece
import torch
import transformers
from sentencepiece import sentencepiece_model_pb2
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    NllbTokenizer,
)

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
SPM = "sentencepiece.bpe.model"
# Pieces of the SentencePiece model, special ones left out, and rows of the embedding.
KINDS = {
    "m2m100": (128_000, 128_112),
    "m2m100_418M": (128_000, 128_112),
    "nllb": (255_997, 256_206),
}
# Latin, Greek and Cyrillic letters, and Chinese characters.
LETTERS = "".join(
    chr(code)
    for first, last in (
        (0x61, 0x7B),
        (0xDF, 0xF7),
        (0x3B1, 0x3C0),
        (0x430, 0x450),
        (0x4E00, 0x4E20),
        (0x21, 0x2F),
    )
    for code in range(first, last)
)
# Lines that a beam search translates, which takes seconds for each.
BEAM_LINES = 40
# Updates of the model that is trained.
UPDATES = 5000
# Of both kinds; width and layers are reduced.
SETTINGS = {
    "encoder_layers": 3,
    "decoder_layers": 2,
    "d_model": 48,
    "encoder_ffn_dim": 80,
    "decoder_ffn_dim": 80,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "activation_function": "relu",
    "scale_embedding": True,
    "max_position_embeddings": 1024,
    "decoder_start_token_id": 2,
}
TRUE_SIZES = {
    "encoder_layers": 12,
    "decoder_layers": 12,
    "d_model": 1024,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
}


def make_pieces(count: int) -> list[str]:
    """Returns made-up pieces: letters, then concatenations of earlier pieces."""
    generator = random.Random(count)
    pieces = ["\u2581", *dict.fromkeys(LETTERS)]
    known = {*pieces}
    while len(pieces) < count:
        # Short ones above all, as in a learned vocabulary.
        left, right = (
            pieces[int(len(pieces) * generator.random() ** 3)] for _ in range(2)
        )
        piece = left + right
        if len(piece) <= 16 and "\u2581" not in piece[1:] and piece not in known:
            pieces.append(piece)
            known.add(piece)
    return pieces


def write_spm(path: pathlib.Path, pieces: list[str], model_type: str) -> None:
    """Writes a SentencePiece model; of a unigram model the scores are random."""
    model = sentencepiece_model_pb2.ModelProto()
    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    for piece, kind in (
        ("<unk>", kinds.UNKNOWN),
        ("<s>", kinds.CONTROL),
        ("</s>", kinds.CONTROL),
    ):
        model.pieces.add(piece=piece, score=0.0, type=kind)
    generator = random.Random(3)
    is_bpe = model_type == "BPE"
    for number, piece in enumerate(pieces):
        # Distinct scores of 24 bits: there are no ties.
        score = -number if is_bpe else -4.0 - generator.randrange(2**20) / 2**18
        model.pieces.add(piece=piece, score=score)
    model.trainer_spec.model_type = getattr(model.trainer_spec, model_type)
    path.write_bytes(model.SerializeToString())


def make(kind: str, folder: pathlib.Path) -> None:
    """Writes a model of random weights."""
    folder.mkdir(parents=True)
    count, rows = KINDS[kind]
    pieces = make_pieces(count)
    if kind != "nllb":
        write_spm(folder / SPM, pieces, "UNIGRAM")
        write_m2m100_tokenizer(folder, pieces)
    else:
        write_spm(folder / SPM, pieces, "BPE")
        write_nllb_tokenizer(folder)
    torch.manual_seed(3)
    settings = SETTINGS | (TRUE_SIZES if kind == "m2m100_418M" else {})
    config = M2M100Config(vocab_size=rows, init_std=0.2, **settings)
    model = M2M100ForConditionalGeneration(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:  # norms and biases, which start as ones and zeros
                weight.add_(0.3 * torch.randn_like(weight))
        # So that some translations end before their limit.
        model.model.shared.weight[2] *= 2.5
    model.generation_config.num_beams = 5
    model.generation_config.max_length = 200
    model.save_pretrained(folder)


def write_m2m100_tokenizer(folder: pathlib.Path, pieces: list[str]) -> None:
    """Writes the tokenizer's files beside the SentencePiece model."""
    ids = {piece: i for i, piece in enumerate([*SPECIAL, *pieces])}
    (folder / "vocab.json").write_text(json.dumps(ids))
    tokenizer = M2M100Tokenizer(str(folder / "vocab.json"), str(folder / SPM))
    tokenizer.save_pretrained(folder)


def write_nllb_tokenizer(folder: pathlib.Path) -> None:
    """Writes tokenizer.json, with languages after the pieces as in Meta's model."""
    plain = NllbTokenizer.from_pretrained(folder)
    backend = json.loads(plain.backend_tokenizer.to_str())
    model = backend["model"]
    charsmap = None
    for step in (backend["normalizer"] or {}).get("normalizers", []):
        charsmap = step.get("precompiled_charsmap", charsmap)
    tokenizer = NllbTokenizer(
        vocab=model["vocab"],
        merges=[tuple(merge) for merge in model["merges"]],
        _spm_precompiled_charsmap=charsmap,
    )
    tokenizer.save_pretrained(folder)


def train(folder: pathlib.Path, text: pathlib.Path) -> None:
    """Trains a small M2M100 on sentence pairs of several languages."""
    folder.mkdir(parents=True)
    pairs = json.loads(text.read_text("utf-8"))
    lines = folder / "lines.txt"
    lines.write_text("".join(f"{pair[2]}\n{pair[3]}\n" for pair in pairs))
    sentencepiece.SentencePieceTrainer.train(
        input=str(lines),
        model_prefix=str(folder / "spm"),
        vocab_size=400,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / "spm.model").rename(folder / SPM)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / SPM))
    own = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    write_m2m100_tokenizer(folder, own)
    tokenizer = M2M100Tokenizer.from_pretrained(folder)
    rows = len(SPECIAL) + len(own) + 100 + 8
    torch.manual_seed(5)
    settings = SETTINGS | {"d_model": 64, "encoder_ffn_dim": 128}
    settings |= {"decoder_ffn_dim": 128, "dropout": 0.0, "attention_dropout": 0.0}
    settings |= {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
    model = M2M100ForConditionalGeneration(M2M100Config(vocab_size=rows, **settings))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    generator = random.Random(1)
    encoded = []
    for source_language, target_language, source, target in pairs:
        tokenizer.src_lang, tokenizer.tgt_lang = source_language, target_language
        both = tokenizer(source, text_target=target)
        encoded.append((both["input_ids"], both["labels"]))
    for update in range(UPDATES):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, (update + 1) / 200, (UPDATES - update) / 2000)
        batch = generator.sample(encoded, 48)
        ids, labels = (pad([pair[side] for pair in batch]) for side in (0, 1))
        labels[labels == 1] = -100
        loss = model(input_ids=ids, attention_mask=ids != 1, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 500 == 0:
            print(update, round(loss.item(), 3), flush=True)
    model.generation_config.num_beams = 4
    model.save_pretrained(folder)


def pad(rows: list[list[int]]) -> torch.Tensor:
    """Returns ids of several lengths as a matrix."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[1] * (longest - len(row))] for row in rows])


def answer(
    folder: pathlib.Path,
    lines: pathlib.Path,
    output: pathlib.Path,
    source: str,
    target: str,
) -> None:
    """Writes ids, logits of some pairs, and translations."""
    model = M2M100ForConditionalGeneration.from_pretrained(folder).eval()
    is_nllb = not (folder / "vocab.json").is_file()
    kind = NllbTokenizer if is_nllb else M2M100Tokenizer
    tokenizer = kind.from_pretrained(folder, src_lang=source, tgt_lang=target)
    first = tokenizer.convert_tokens_to_ids(target if is_nllb else f"__{target}__")
    texts = lines.read_text("utf-8").splitlines()
    results = {
        "source_ids": [tokenizer(text)["input_ids"] for text in texts],
        "pairs": [],
    }
    logits = {}
    for number, text in enumerate(texts[:10]):
        inputs = tokenizer(text, text_target=texts[number - 1], return_tensors="pt")
        with torch.no_grad():
            found = model(**inputs).logits[0]
        results["pairs"].append(
            [inputs["input_ids"][0].tolist(), inputs["labels"][0].tolist()]
        )
        logits[str(number)] = found.numpy()
    results["greedy"] = translate(model, tokenizer, texts, first, 1)
    results["beam"] = translate(model, tokenizer, texts[:BEAM_LINES], first, 4)
    output.write_text(json.dumps(results))
    np.savez(output.with_suffix(".npz"), **logits)


def translate(model, tokenizer, texts: list[str], first: int, beams: int) -> list[dict]:
    """Returns text and number of tokens of the translation of each line."""
    results = []
    codes = ["__af__", "ace_Arab"]
    first_language = max(tokenizer.convert_tokens_to_ids(codes))
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt")
        limit = inputs["input_ids"].shape[1] + 20
        with torch.no_grad():
            (ids,) = model.generate(
                **inputs,
                forced_bos_token_id=first,
                num_beams=beams,
                length_penalty=1.0,
                early_stopping="never",
                # As here, where a translation of the maximum length is ended.
                forced_eos_token_id=2,
                max_length=limit + 1,
            )
        # Languages and rows without a piece have no text; to M2M100Tokenizer of
        # transformers 5, languages are not special.
        kept = [i for i in ids.tolist() if len(SPECIAL) <= i < first_language]
        found = tokenizer.decode(kept, skip_special_tokens=True).strip()
        results.append({"text": found, "tokens": len(ids) - 1, "limit": limit})
    return results


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    command, *names = sys.argv[1:]
    if command == "make":
        make(names[0], pathlib.Path(names[1]))
    elif command == "train":
        train(*map(pathlib.Path, names))
    else:
        answer(*map(pathlib.Path, names[:3]), *names[3:])
