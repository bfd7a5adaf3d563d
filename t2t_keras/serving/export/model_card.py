"""Model card of an exported version, as JSON and as Markdown.

The card is in the directory of the version and is copied with it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from t2t_keras.files.atomic import file_sha256
from t2t_keras.serving.export.requests import read_warm_up
from t2t_keras.serving.export.validation import (
    TOKENIZER_OPS,
    list_signatures,
    read_meta_graph,
)

CARD = "model_card.json"
READABLE = "model_card.md"


def write_model_card(version: Path, metadata: Mapping[str, Any]) -> None:
    """Writes the card of an export as JSON and as Markdown, after all other files.

    Args:
        version: Directory of the SavedModel. The card has the digest of each file.
        metadata: What no file contains: languages, sizes, scores, settings.
    """
    meta_graph = read_meta_graph(version)
    used = {op.name for op in meta_graph.meta_info_def.stripped_op_list.op}
    card = {
        **metadata,
        "signatures": {
            name: {
                "inputs": _describe_tensors(definition.inputs),
                "outputs": _describe_tensors(definition.outputs),
                "defaults": {
                    key: _default(value)
                    for key, value in sorted(definition.defaults.items())
                },
            }
            for name, definition in list_signatures(meta_graph).items()
        },
        # Each once, in the order of the requests.
        "warm_up": list(
            dict.fromkeys(each.signature_name for each in read_warm_up(version))
        ),
        "ops_beside_tensorflow": sorted(used & TOKENIZER_OPS),
        "tested_with": f"TensorFlow {tf.__version__}, in a session as servers use it",
        "files": {
            path.relative_to(version).as_posix(): file_sha256(path)
            for path in sorted(version.rglob("*"))
            if path.is_file()
        },
    }
    (version / CARD).write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    (version / READABLE).write_text(_to_markdown(card), encoding="utf-8")


def _default(value: Any) -> Any:
    """Returns the default of an input, a scalar, as a JSON value."""
    scalar = tf.make_ndarray(value).item()
    return scalar.decode() if isinstance(scalar, bytes) else scalar


def _describe_tensors(infos: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns dtype and shape of tensors by name; -1 for a size that varies."""
    return {
        name: {
            "dtype": tf.dtypes.as_dtype(info.dtype).name,
            "shape": None
            if info.tensor_shape.unknown_rank
            else [dim.size for dim in info.tensor_shape.dim],
        }
        for name, info in sorted(infos.items())
    }


def _to_markdown(card: Mapping[str, Any]) -> str:
    """Returns the card as Markdown."""
    languages, source, model = card["languages"], card["source"], card["model"]
    paragraphs = [
        f"# {card['name']}",
        f"A Transformer of {model['parameters']:,} parameters that translates from "
        f"{languages['source']} to {languages['target']}, checkpoint "
        f"{source['checkpoint']} (step {source['step']:,}"
        + (f", the average of {len(source['averaged'])}" if source["averaged"] else "")
        + f"), computed in {model['precision']}"
        + (", compiled by XLA." if card["xla"] else "."),
        *_ensemble(card.get("ensemble_with", ())),
        *_shortlist(card.get("shortlist")),
        score_table(card["scores"]),
        table("Signature", ["inputs", "outputs"], _signature_rows(card["signatures"])),
        _warm_up(card["warm_up"], card["signatures"]),
        table("Limit", ["value"], [[k, v] for k, v in card["limits"].items()]),
        "Longer inputs are cut, and `truncated` is then true.",
        table("Search", ["value"], [[k, v] for k, v in card["decoding"].items()]),
        *_sampling(card.get("sampling")),
        table("Model", ["value"], [[k, v] for k, v in model.items()]),
        table(
            "Exported with", ["version"], [[k, v] for k, v in card["versions"].items()]
        ),
        "In addition to TensorFlow's own ops it needs "
        + (", ".join(card["ops_beside_tensorflow"]) or "none")
        + f". Tested with {card['tested_with']}; not with TensorFlow Serving's binary.",
        table("File", ["SHA-256"], [[k, v] for k, v in card["files"].items()]),
    ]
    return "\n\n".join(paragraphs) + "\n"


def _sampling(settings: Mapping[str, Any] | None) -> list[str]:
    """Returns a table of the settings of samples, if there is a signature for them."""
    if settings is None:
        return []
    return [table("Sampling", ["value"], [[k, v] for k, v in settings.items()])]


def _ensemble(others: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a paragraph about the other models of an ensemble, if there are any."""
    if not others:
        return []
    rows = [
        [
            f"{each['run']}/{each['source']['checkpoint']}",
            f"{each['source']['step']:,}",
            f"{each['model']['parameters']:,}",
        ]
        for each in others
    ]
    return [
        "The probabilities of the next token are the mean of this model's and of "
        "others'; `attention` is that of this model.",
        table("Other model", ["step", "parameters"], rows),
    ]


def _shortlist(shortlist: Mapping[str, Any] | None) -> list[str]:
    """Returns a paragraph about the shortlist, if there is one."""
    if shortlist is None:
        return []
    return [
        f"The search considers a shortlist of {shortlist['size']:,} tokens for each "
        "sentence, and scores are relative to it; `score` is of the whole vocabulary."
    ]


def score_table(scores: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a table of scores by the name of the test set."""
    if not scores:
        return "It has not been scored."
    rows = [
        [name, *(_round(score.get(key)) for key in ("bleu", "chrf", "perplexity"))]
        for name, score in scores.items()
    ]
    return table("Scored on", ["BLEU", "chrF", "perplexity"], rows)


def _round(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def _signature_rows(signatures: Mapping[str, Any]) -> list[list[str]]:
    return [
        [name, ", ".join(tensors["inputs"]), ", ".join(tensors["outputs"])]
        for name, tensors in signatures.items()
    ]


def _warm_up(names: Sequence[str], signatures: Collection[str]) -> str:
    """Returns a sentence about the signatures with and without warm-up requests."""
    others = [name for name in signatures if name not in names]
    slow = f"The first call is slow of {', '.join(others)}." if others else ""
    warm = f"While it loads, a server warms up {', '.join(names)}." if names else ""
    return " ".join(part for part in (warm, slow) if part)


def table(first: str, others: list[str], rows: list[list[Any]]) -> str:
    """Returns a table of Markdown, with the title of its first column and of others."""
    head = [first, *others]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
