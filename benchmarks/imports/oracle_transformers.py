"""Makes a MarianMT model and translates with it: for `benchmarks.imports`.

    python oracle_transformers.py OPUS_FOLDER LINES OUTPUT.json MODEL_FOLDER
    python oracle_transformers.py MODEL_FOLDER LINES OUTPUT.json --loaded

The model has the vocabulary and the SentencePiece models of a folder of OPUS-MT's
layout. Its weights are those of the folder, or random ones with --random. With --loaded
it is a model that transformers loads. Only torch, transformers, sentencepiece and
pyyaml are needed.
"""

import argparse
import json
import pathlib
import shutil

import numpy as np
import torch
import transformers
import yaml
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

PAD = "<pad>"


def main() -> None:
    """Writes the model, logits of some pairs, and translations of each line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("opus", "lines", "output"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path, nargs="?")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--loaded", action="store_true")
    flags = parser.parse_args()
    transformers.logging.set_verbosity_error()
    if flags.loaded:
        model = MarianMTModel.from_pretrained(flags.opus)
        tokenizer = MarianTokenizer.from_pretrained(flags.opus)
    elif flags.random:
        model, tokenizer = make_random(flags.opus, flags.model)
    else:
        model, tokenizer = convert(flags.opus, flags.model)
    model.eval()
    lines = flags.lines.read_text("utf-8").splitlines()
    results = {
        "logits": compute_logits(model, tokenizer, lines[:20]),
        "source_ids": [tokenizer(line)["input_ids"] for line in lines],
        "greedy": translate(model, tokenizer, lines, num_beams=1),
        "beam": translate(model, tokenizer, lines, num_beams=4),
    }
    flags.output.write_text(json.dumps(results))


def read_vocabulary(opus: pathlib.Path) -> dict[str, int]:
    """Returns the ids of the pieces, padding last."""
    vocabulary = yaml.safe_load((opus / "vocab.yml").read_text("utf-8"))
    return {**vocabulary, PAD: len(vocabulary)}


def write_tokenizer(opus: pathlib.Path, folder: pathlib.Path) -> MarianTokenizer:
    """Writes the tokenizer's files and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = read_vocabulary(opus)
    (folder / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    for side in ("source", "target"):
        shutil.copy(opus / f"{side}.spm", folder / f"{side}.spm")
    tokenizer = MarianTokenizer(
        source_spm=str(folder / "source.spm"),
        target_spm=str(folder / "target.spm"),
        vocab=str(folder / "vocab.json"),
        source_lang="en",
        target_lang="de",
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def common_settings(size: int) -> dict[str, object]:
    """Returns settings that every OPUS-MT model has; padding is the last piece."""
    return {
        "vocab_size": size,
        "scale_embedding": True,
        "pad_token_id": size - 1,
        "eos_token_id": 0,
        "decoder_start_token_id": size - 1,
        "forced_eos_token_id": 0,
        "max_position_embeddings": 512,
    }


def make_random(opus: pathlib.Path, folder: pathlib.Path):
    """Writes a model of random weights."""
    tokenizer = write_tokenizer(opus, folder)
    size = len(read_vocabulary(opus))
    torch.manual_seed(3)
    config = MarianConfig(
        d_model=48,
        encoder_layers=3,
        decoder_layers=2,
        encoder_ffn_dim=80,
        decoder_ffn_dim=80,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        activation_function="gelu",
        init_std=0.2,
        **common_settings(size),
    )
    model = MarianMTModel(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:  # norms and biases, which start as ones and zeros
                weight.add_(0.3 * torch.randn_like(weight))
        model.final_logits_bias.normal_(0, 0.5)
    model.generation_config.renormalize_logits = True
    model.generation_config.bad_words_ids = [[size - 1], [1]]
    model.save_pretrained(folder)
    return model, tokenizer


def convert(opus: pathlib.Path, folder: pathlib.Path):
    """Writes a model with the weights of a post-norm model of Marian."""
    tokenizer = write_tokenizer(opus, folder)
    arrays = np.load(opus / "model.npz")
    settings = yaml.safe_load(arrays["special:model.yml"].tobytes().rstrip(b"\0"))
    size = len(read_vocabulary(opus))
    config = MarianConfig(
        d_model=settings["dim-emb"],
        encoder_layers=settings["enc-depth"],
        decoder_layers=settings["dec-depth"],
        encoder_ffn_dim=settings["transformer-dim-ffn"],
        decoder_ffn_dim=settings["transformer-dim-ffn"],
        encoder_attention_heads=settings["transformer-heads"],
        decoder_attention_heads=settings["transformer-heads"],
        activation_function=settings["transformer-ffn-activation"],
        **common_settings(size),
    )
    model = MarianMTModel(config)
    state = {
        name: fill(name, arrays)
        for name, _ in model.named_parameters()
        if "embed_positions" not in name and "lm_head" not in name
    }
    bias = np.append(arrays["decoder_ff_logit_out_b"][0], 0.0)[None]
    state["final_logits_bias"] = bias
    found = model.load_state_dict(
        {name: torch.tensor(value).float() for name, value in state.items()},
        strict=False,
    )
    if found.unexpected_keys:
        raise ValueError(f"MarianMTModel has no {found.unexpected_keys}")
    model.tie_weights()
    model.generation_config.bad_words_ids = [[size - 1]]
    model.save_pretrained(folder)
    return model, tokenizer


def fill(name: str, arrays) -> np.ndarray:
    """Returns the value of a parameter of MarianMTModel."""
    parts = name.split(".")
    if name == "model.shared.weight":
        return np.concatenate([arrays["Wemb"], np.zeros_like(arrays["Wemb"][:1])])
    layer = f"{parts[1]}_l{int(parts[3]) + 1}"
    kind = "W" if parts[-1] == "weight" else "b"
    names = {"self_attn": "self", "encoder_attn": "context"}
    if parts[4] in names:
        letter = parts[5][0]
        value = arrays[f"{layer}_{names[parts[4]]}_{kind}{letter}"]
    elif parts[4] in ("fc1", "fc2"):
        value = arrays[f"{layer}_ffn_{kind}{parts[4][-1]}"]
    else:
        norms = {
            "self_attn_layer_norm": "self_Wo",
            "encoder_attn_layer_norm": "context_Wo",
            "final_layer_norm": "ffn_ffn",
        }
        part = "scale" if parts[-1] == "weight" else "bias"
        return arrays[f"{layer}_{norms[parts[4]]}_ln_{part}"][0]
    return value.T if kind == "W" else value[0]


def compute_logits(model, tokenizer, lines: list[str]) -> list[dict]:
    """Returns ids and logits of lines, with the next line as the target."""
    results = []
    for source, target in zip(lines, [*lines[1:], lines[0]], strict=True):
        inputs = tokenizer(source, return_tensors="pt")["input_ids"]
        labels = tokenizer(text_target=target, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            logits = model(input_ids=inputs, labels=labels).logits[0]
        results.append(
            {
                "source": inputs[0].tolist(),
                "target": labels[0].tolist(),
                "logits": logits.tolist(),
            }
        )
    return results


def translate(model, tokenizer, lines: list[str], **options) -> list[dict]:
    """Returns ids and text of the translation of each line, one at a time."""
    results = []
    for line in lines:
        inputs = tokenizer(line, return_tensors="pt")
        with torch.no_grad():
            (ids,) = model.generate(
                **inputs,
                **{"early_stopping": "never", **options},
                max_length=inputs["input_ids"].shape[1] + 51,
            )
        text = tokenizer.decode(ids, skip_special_tokens=True)
        results.append({"ids": ids.tolist()[1:], "text": text})
    return results


if __name__ == "__main__":
    main()
