"""Trains models with OpenNMT-tf and answers with them: for `benchmarks.imports`.

    python oracle_opennmt_tf.py train catalog TEXT FOLDER
    python oracle_opennmt_tf.py train described TEXT FOLDER
    python oracle_opennmt_tf.py train random TEXT FOLDER
    python oracle_opennmt_tf.py answer RUN LINES OUTPUT

TEXT is the folder of the grammar. FOLDER gets data.yml, vocabularies, SentencePiece
models, and the run. RUN is a folder with data.yml and run; `--checkpoint=run/avg`
answers with another checkpoint. OUTPUT.npz and OUTPUT.json are written.

The interpreter needs OpenNMT-tf, tensorflow-text and sentencepiece; `__main__.py` says
how they are installed for today's TensorFlow.
"""

import argparse
import json
import os
import pathlib
import random
from typing import Any

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import opennmt
import sentencepiece
import tensorflow as tf
import yaml
from opennmt import config as configuration
from opennmt.utils.checkpoint import Checkpoint

PAIRS, LONGEST = 200, 30
SIDES = (("source", "en"), ("target", "de"))
SPECIAL = ("<blank>", "<s>", "</s>")
# Post-norm; one embedding; as many heads as no model of the catalog of this width has.
DESCRIBED = """import opennmt as onmt
import tensorflow as tf


class Shared(onmt.models.Transformer):
    def __init__(self):
        super().__init__(
            num_layers=(3, 2),
            num_units=64,
            num_heads=4,
            ffn_inner_dim=96,
            ffn_activation=tf.nn.gelu,
            share_embeddings=onmt.models.EmbeddingsSharingLevel.ALL,
            pre_norm=False,
            output_layer_bias=False,
        )


model = Shared
"""
# The softmax alone shares the embedding of targets; attention has no biases.
RANDOM = """import opennmt
import tensorflow as tf

model = lambda: opennmt.models.Transformer(
    opennmt.inputters.WordEmbedder(embedding_size=48),
    opennmt.inputters.WordEmbedder(embedding_size=48),
    num_layers=2,
    num_units=48,
    num_heads=6,
    ffn_inner_dim=80,
    ffn_activation=tf.nn.silu,
    mha_bias=False,
    share_embeddings=opennmt.models.EmbeddingsSharingLevel.TARGET,
)
"""


def main() -> None:
    """Runs one of the two commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train")
    train.add_argument("kind", choices=("catalog", "described", "random"))
    train.add_argument("text", type=pathlib.Path)
    train.add_argument("folder", type=pathlib.Path)
    train.add_argument("--updates", type=int, default=1000)
    answer = commands.add_parser("answer")
    for name in ("folder", "lines", "output"):
        answer.add_argument(name, type=pathlib.Path)
    answer.add_argument("--checkpoint", default="run")
    flags = parser.parse_args()
    if flags.command == "train":
        make_model(flags)
    else:
        write_answers(flags)


def make_model(flags: argparse.Namespace) -> None:
    """Writes vocabularies and configuration, and trains a model."""
    text, folder = flags.text.resolve(), flags.folder
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    config = write_config(flags, text)
    if flags.kind == "catalog":
        options = {"model_name": "TransformerTiny"}
    else:
        code = DESCRIBED if flags.kind == "described" else RANDOM
        pathlib.Path("described.py").write_text(code)
        options = {"model_file": "described.py"}
    pathlib.Path("run").mkdir()
    builder = configuration.load_model("run", as_builder=True, **options)
    if flags.kind == "random":
        save_random(builder(), config)
    else:
        opennmt.Runner(builder, config, seed=1).train()


def write_config(flags: argparse.Namespace, text: pathlib.Path) -> dict[str, Any]:
    """Writes SentencePiece models, vocabularies and data.yml, and returns its content.

    The described model has one vocabulary, reads </s> after a source, and saves an
    average of its weights.
    """
    data: dict[str, Any] = {}
    is_joint = flags.kind == "described"
    for number, (side, language) in enumerate(SIDES):
        name = "joint" if is_joint else side
        files = [text / f"train.{each}" for _, each in SIDES]
        if not is_joint:
            files = files[number : number + 1]
        # Vocabularies of two sizes, so that a mix-up of sides shows.
        write_vocabulary(name, files, 800 if is_joint else 500 + 100 * number)
        data[f"{side}_vocabulary"] = f"{name}.vocab"
        data[f"{side}_tokenization"] = {
            "type": "SentencePieceTokenizer",
            "params": {"model": f"{name}.model"},
        }
        kind = "features" if side == "source" else "labels"
        data[f"train_{kind}_file"] = str(text / f"train.{language}")
    train: dict[str, Any] = {
        "batch_size": 2048,
        "batch_type": "tokens",
        "max_step": flags.updates,
        "save_checkpoints_steps": flags.updates // 4,
        "average_last_checkpoints": 2,
        "save_summary_steps": 100,
    }
    if is_joint:
        data["source_sequence_controls"] = {"end": True}
        train["moving_average_decay"] = 0.99
    params = {
        "optimizer": "Adam",
        "learning_rate": 0.003,
        "label_smoothing": 0.1,
        "beam_width": 4,
        "length_penalty": 0.6,
    }
    config = {"model_dir": "run", "data": data, "params": params, "train": train}
    pathlib.Path("data.yml").write_text(yaml.safe_dump(config))
    return config


def write_vocabulary(name: str, files: list[pathlib.Path], size: int) -> None:
    """Learns a SentencePiece model, and writes its pieces as OpenNMT-tf has them."""
    sentencepiece.SentencePieceTrainer.train(
        input=",".join(map(str, files)),
        model_prefix=name,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=f"{name}.model")
    pieces = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    text = "".join(f"{piece}\n" for piece in (*SPECIAL, *pieces))
    pathlib.Path(f"{name}.vocab").write_text(text, "utf-8")


def save_random(model: Any, config: dict[str, Any]) -> None:
    """Saves a model of random weights, none of them zero or one."""
    model.initialize(config["data"], params=config["params"])
    model.create_variables()
    generator = np.random.default_rng(3)
    for variable in model.trainable_variables:
        scale = 0.3 if len(variable.shape) == 1 else 0.2
        variable.assign_add(generator.normal(scale=scale, size=variable.shape))
    Checkpoint(model, model_dir="run").save(step=1)


def write_answers(flags: argparse.Namespace) -> None:
    """Writes logits of random pairs, and translations of lines."""
    lines, output = flags.lines.resolve(), flags.output.resolve()
    os.chdir(flags.folder)
    config = configuration.load_config(["data.yml"])
    model = configuration.load_model("run")
    model.initialize(config["data"], params=config["params"])
    model.create_variables()
    path = Checkpoint(model).restore(flags.checkpoint, weights_only=True)
    answers: dict[str, Any] = {"pairs": random_pairs(config["data"])}
    logits = [compute_logits(model, *pair) for pair in answers["pairs"]]
    np.savez(output.with_suffix(".npz"), *logits)
    for name, width in (("greedy", 1), ("beam", 4)) if lines.stat().st_size else ():
        params = {**config["params"], "beam_width": width}
        runner = opennmt.Runner(
            lambda: configuration.load_model("run"), {**config, "params": params}
        )
        found = output.with_suffix(f".{name}")
        runner.infer(str(lines), predictions_file=str(found), checkpoint_path=path)
        answers[name] = found.read_text("utf-8").split("\n")[:-1]
    output.with_suffix(".json").write_text(json.dumps(answers))


def random_pairs(data: dict[str, Any]) -> list[tuple[list[str], list[str]]]:
    """Returns tokens of random sources and targets; the target may be empty."""
    tokens = [
        pathlib.Path(data[f"{side}_vocabulary"]).read_text("utf-8").split("\n")[3:-1]
        for side, _ in SIDES
    ]
    generator = random.Random(5)
    return [
        (
            generator.choices([*tokens[0], "?!?"], k=generator.randint(1, LONGEST)),
            generator.choices([*tokens[1], "?!?"], k=generator.randint(0, LONGEST)),
        )
        for _ in range(PAIRS)
    ]


def compute_logits(model: Any, source: list[str], target: list[str]) -> np.ndarray:
    """Returns the logits [T + 1, V] of a pair, without dropout."""
    features, labels = (
        inputter.make_features(
            features={
                "tokens": tf.constant([tokens], tf.string, [1, len(tokens)]),
                "length": tf.constant([len(tokens)]),
            },
            training=False,
        )
        for inputter, tokens in (
            (model.features_inputter, source),
            (model.labels_inputter, target),
        )
    )
    length = model.features_inputter.get_length(features)
    encoded = model.encoder(
        model.features_inputter(features, training=False),
        sequence_length=length,
        training=False,
    )
    outputs = model._decode_target(
        labels, encoded[0], encoded[1], encoded[2], training=False
    )
    return outputs["logits"].numpy()[0]


if __name__ == "__main__":
    main()
