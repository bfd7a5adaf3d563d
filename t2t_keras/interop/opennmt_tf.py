"""Reader of OpenNMT-tf's Transformers, as its second version stores them.

Source: OpenNMT-tf 2.32, opennmt/models/transformer.py, opennmt/models/catalog.py,
opennmt/layers/{common,position,transformer}.py, opennmt/inputters/text_inputter.py and
opennmt/utils/{checkpoint,decoding}.py; measured against it (docs/convert.md).

Shapes: V vocabulary, D model width.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.interop.checkpoint_file import CheckpointArrays, checkpoint_files
from t2t_keras.interop.imported_model import (
    IdMap,
    ImportedModel,
    ReadArray,
    ReadWeight,
    embedding_options,
    transposed,
)
from t2t_keras.interop.opennmt_description import (
    Description,
    Inputter,
    read_description,
)
from t2t_keras.interop.opennmt_run import (
    DESCRIPTION,
    END,
    START,
    RunFiles,
    find_run,
    find_tokenizers,
    read_vocabularies,
)
from t2t_keras.interop.sentencepiece_pair import open_piece_vocabulary
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig

# A variable of the model has this beginning and end. The state of the optimizer for it
# has the beginning, too, and `_SLOT`.
_SCOPE, _VALUE, _SLOT = "model/", "/.ATTRIBUTES/VARIABLE_VALUE", "/.OPTIMIZER_SLOT/"
# What a checkpoint of objects has beside variables.
_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_EMBEDDING = MappingProxyType(
    {
        "source": "examples_inputter/features_inputter/embedding",
        "target": "examples_inputter/labels_inputter/embedding",
    }
)
_OUTPUT = "decoder/output_layer"
_PROJECTIONS = MappingProxyType(
    {"query": "queries", "key": "keys", "value": "values", "output": "output"}
)
# By the name of the function, or that of Keras. The gelu of opennmt.layers is another.
_ACTIVATIONS = MappingProxyType(
    {
        "tensorflow.nn.relu": "relu",
        "relu": "relu",
        "tensorflow.nn.gelu": "gelu",
        "gelu": "gelu",
        "tensorflow.nn.silu": "swish",
        "silu": "swish",
        "tensorflow.nn.swish": "swish",
        "swish": "swish",
    }
)
_ADVICE = (
    "OpenNMT-tf writes it beside the checkpoints of a run. For a model of its catalog, "
    "write these two lines: `from opennmt import models` and "
    '`model = lambda: models.get_model_from_catalog("Transformer")`.'
)
# Keras 2 adds this to a variance.
_EPSILON = 1e-3
_FIRST_POSITION = 1
# Settings of the search that have no counterpart here, and the value without effect.
_IGNORED = MappingProxyType(
    {
        "coverage_penalty": 0,
        "replace_unknown_target": False,
        "sampling_topk": 1,
        "decoding_noise": None,
    }
)


def read_opennmt_tf(path: Path) -> ImportedModel:
    """Returns a Transformer of OpenNMT-tf 2.

    Args:
        path: Folder of a checkpoint with model_description.py and the configuration
            .yml; or that configuration, which names the folder; or a checkpoint's file
            .index. Vocabularies and SentencePiece models are those that the
            configuration names; without any, a line is tokens between spaces.

    Raises:
        UserError: If a file is missing or damaged, files do not belong together, or
            this project has no such architecture.
    """
    run = find_run(path)
    arrays = _open_checkpoint(run.checkpoint)
    description_file = run.find(DESCRIPTION, _ADVICE)
    description = read_description(description_file)
    _check_architecture(description_file, description)
    source_eos = _source_eos(run, description)
    tables = _find_tables(arrays)
    rows = [arrays.shape(tables[side])[0] for side in ("source", "target")]
    (source, target), vocabulary_files = read_vocabularies(run, rows)
    model_files, warnings = find_tokenizers(run)
    vocabulary, spm_files = open_piece_vocabulary(
        run.folder, source, target, model_files
    )
    weights = _map_embeddings(arrays, tables, source, target)
    layers = _count_layers(description)
    pre_norm = bool(description.arguments["pre_norm"])
    for stack, count in layers.items():
        for layer in range(count):
            weights |= _map_layer(arrays, stack, layer, description.arguments)
        if pre_norm:
            weights |= _map_norm(arrays, f"{stack}/layer_norm", stack)
    arrays.check_all_used()
    params = run.config.get("params") or {}
    return ImportedModel(
        model=_model_config(description, layers, source_eos, weights),
        decoding=_decoding_config(params),
        vocabulary=vocabulary,
        weights=weights,
        original_ids=target.original_ids,
        source_original_ids=None if source is target else source.original_ids,
        files=[
            *checkpoint_files(run.checkpoint),
            description_file,
            *([run.config_file] if run.config_file else []),
            *vocabulary_files,
            *spm_files,
        ],
        settings={
            "model": {"type": description.name, **description.arguments},
            "config": dict(run.config),
        },
        warnings=[*warnings, *_warnings(run, params)],
    )


def _open_checkpoint(path: Path) -> CheckpointArrays:
    """Returns the variables of a checkpoint's model."""
    arrays = CheckpointArrays(
        path,
        lambda name: name == _GRAPH or (name.startswith(_SCOPE) and _SLOT not in name),
    )
    if arrays.names <= {_GRAPH} or _GRAPH not in arrays.names:
        raise UserError(
            f"The checkpoint {path} has no variables of a model of OpenNMT-tf 2. When "
            "release 2 restores a checkpoint of release 1, it saves one of its own."
        )
    arrays.read(_GRAPH)  # The end of the file: what is cut short fails here.
    return arrays


def _variable(path: str) -> str:
    """Returns the name in a checkpoint of a variable of the model."""
    return f"{_SCOPE}{path}{_VALUE}"


def _check_architecture(path: Path, description: Description) -> None:
    """Raises `UserError` if this project has no such model."""
    arguments = description.arguments
    inputters = [arguments[f"{side}_inputter"] for side in ("source", "target")]
    positions = str(arguments["position_encoder_class"])
    for is_known, about, received in (
        (
            arguments["maximum_relative_position"] is None,
            "relative positions",
            arguments["maximum_relative_position"],
        ),
        (
            positions.endswith(".SinusoidalPositionEncoder"),
            "no sinusoids for positions",
            positions,
        ),
        (
            arguments["ffn_activation"] in _ACTIVATIONS,
            "an activation that this project does not have",
            arguments["ffn_activation"],
        ),
        (
            all(each is None or _is_embedding(each) for each in inputters),
            "inputs other than one sequence of tokens",
            inputters,
        ),
    ):
        if not is_known:
            raise UserError(
                f"{path} cannot be imported: its model has {about}. Received: "
                f"{received}"
            )


def _is_embedding(inputter: Any) -> bool:
    """Returns whether an inputter looks up an embedding of each token."""
    return (
        isinstance(inputter, Inputter)
        and inputter.name == "WordEmbedder"
        and inputter.arguments.keys() <= {"embedding_size", "dropout"}
    )


def _source_eos(run: RunFiles, description: Description) -> bool:
    """Returns whether the encoder reads the end of a source."""
    target = run.data("target", "sequence_controls") or {"start": True, "end": True}
    if not (target.get("start") and target.get("end")):
        raise UserError(
            f"{run.config_file} cannot be imported: its targets must have {START} and "
            f"{END}. Received: target_sequence_controls {target}"
        )
    source = run.data("source", "sequence_controls")
    if source is None and description.may_end_sources:
        raise UserError(
            f"{run.folder} does not say whether sources end with {END}: "
            f"{description.name} has it if its training had --auto_config. Write into "
            "the configuration `data: {source_sequence_controls: {end: true}}`, or "
            "false."
        )
    source = source or {}
    if source.get("start"):
        raise UserError(
            f"{run.config_file} cannot be imported: its sources begin with {START}, "
            "which is not possible here."
        )
    return bool(source.get("end"))


def _find_tables(arrays: CheckpointArrays) -> dict[str, str]:
    """Returns the name of each side's embedding: one name if they share it.

    A checkpoint stores a shared variable once, under one of its names.
    """
    names = {side: _variable(path) for side, path in _EMBEDDING.items()}
    found = {side: name for side, name in names.items() if name in arrays.names}
    if not found:
        raise UserError(
            f"{arrays.path} has no embedding of a translation model. Expected "
            f"{' or '.join(names.values())}. Its architecture is another one."
        )
    return {**dict.fromkeys(names, next(iter(found.values()))), **found}


def _count_layers(description: Description) -> dict[str, int]:
    count = description.arguments["num_layers"]
    encoder, decoder = count if isinstance(count, (list, tuple)) else (count, count)
    return {"encoder": encoder, "decoder": decoder}


def _model_config(
    description: Description,
    layers: Mapping[str, int],
    source_eos: bool,
    weights: Mapping[str, ReadWeight],
) -> ModelConfig:
    arguments = description.arguments
    return ModelConfig(
        num_layers=layers["encoder"],
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        d_model=arguments["num_units"],
        d_ff=arguments["ffn_inner_dim"],
        num_heads=arguments["num_heads"],
        dropout_rate=float(arguments["dropout"]),
        attention_dropout_rate=float(arguments["attention_dropout"]),
        normalization="pre" if arguments["pre_norm"] else "post",
        layer_norm_epsilon=_EPSILON,
        activation=_ACTIVATIONS[arguments["ffn_activation"]],
        attention_bias=bool(arguments["mha_bias"]),
        **embedding_options(weights),
        source_eos=source_eos,
        position_layout="halves_t2t",
        first_position=_FIRST_POSITION,
        decoder_start=START,
    )


def _decoding_config(params: Mapping[str, Any]) -> DecodingConfig:
    """Returns the settings of the search, or those of --auto_config."""
    alpha = float(params.get("length_penalty") or 0.0)
    return DecodingConfig(
        beam_size=int(params.get("beam_width") or 4),
        alpha=alpha or 0.6,
        length_penalty="gnmt" if alpha else "none",
        min_length=int(params.get("minimum_decoding_length") or 0),
    )


def _warnings(run: RunFiles, params: Mapping[str, Any]) -> list[str]:
    warnings = [
        f"{name}: {params[name]} is ignored; there is none here"
        for name, without in _IGNORED.items()
        if params.get(name, without) != without
    ]
    if (run.folder / "avg" / "checkpoint").is_file():
        warnings.append(
            f"{run.folder / 'avg'} has an average of checkpoints, which as a rule "
            "translates better. Give it as --input to import it"
        )
    return warnings


def _map_embeddings(
    arrays: CheckpointArrays, tables: Mapping[str, str], source: IdMap, target: IdMap
) -> dict[str, ReadWeight]:
    weights: dict[str, ReadWeight] = {
        "embedding/embeddings": target.rows(arrays.reader(tables["target"]))
    }
    if tables["source"] != tables["target"]:
        rows = source.rows(arrays.reader(tables["source"]))
        weights["source_embedding/embeddings"] = rows
    kernel, bias = (_variable(f"{_OUTPUT}/{name}") for name in ("kernel", "bias"))
    if kernel in arrays.names:
        matrix = arrays.reader(kernel)
        weights["embedding/output_matrix"] = target.rows(transposed(matrix))
    if bias in arrays.names:
        weights["embedding/output_bias"] = target.rows(arrays.reader(bias))
    return weights


def _map_layer(
    arrays: CheckpointArrays, stack: str, layer: int, arguments: Mapping[str, Any]
) -> dict[str, ReadArray]:
    theirs, ours = f"{stack}/layers/{layer}", f"{stack}/layer_{layer}"
    norm = "input_layer_norm" if arguments["pre_norm"] else "output_layer_norm"
    parts = [("self_attention", "attention", "attention_residual")]
    if stack == "decoder":
        parts.append(("attention/0", "memory_attention", "memory_residual"))
    weights: dict[str, ReadArray] = {}
    for name, attention, residual in parts:
        for our_name, their_name in _PROJECTIONS.items():
            prefix = f"{theirs}/{name}/layer/linear_{their_name}"
            path = f"{ours}/{attention}/{our_name}"
            weights[f"{path}_kernel"] = arrays.reader(_variable(f"{prefix}/kernel"))
            if arguments["mha_bias"]:
                weights[f"{path}_bias"] = arrays.reader(_variable(f"{prefix}/bias"))
        weights |= _map_norm(arrays, f"{theirs}/{name}/{norm}", f"{ours}/{residual}")
    for name in ("inner", "outer"):
        for part in ("kernel", "bias"):
            reader = arrays.reader(_variable(f"{theirs}/ffn/layer/{name}/{part}"))
            weights[f"{ours}/feed_forward/{name}/{part}"] = reader
    residual = f"{ours}/feed_forward_residual"
    return weights | _map_norm(arrays, f"{theirs}/ffn/{norm}", residual)


def _map_norm(arrays: CheckpointArrays, theirs: str, ours: str) -> dict[str, ReadArray]:
    return {
        f"{ours}/norm/{name}": arrays.reader(_variable(f"{theirs}/{name}"))
        for name in ("gamma", "beta")
    }
