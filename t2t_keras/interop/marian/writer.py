"""Writer of Marian's models, with the layout of files of OPUS-MT.

Sources as of `marian`; measured against pymarian (docs/convert.md).

Shapes: V vocabulary, D model width, L positions.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from t2t_keras.interop.arrays import fit_heads
from t2t_keras.interop.marian.files import MODEL_SETTINGS
from t2t_keras.interop.marian.names import (
    CLASSIC,
    EPSILONS,
    NEW,
    POSITIONS,
    last_norm,
    stack_names,
)
from t2t_keras.interop.marian.settings import (
    WEIGHTS,
    VocabularyFiles,
    decoder_settings,
    length,
    marian_type,
    model_settings,
    yaml_text,
)
from t2t_keras.model.transformer import Transformer
from t2t_keras.settings.decoding_config import DecodingConfig

_STACKS = ("encoder", "decoder")


def write_marian(
    model: Transformer,
    vocabularies: VocabularyFiles,
    folder: Path,
    *,
    decoding: DecodingConfig,
) -> None:
    """Writes the files that Marian loads: the weights, decoder.yml and vocabularies.

    Args:
        model: A model in float32, which `marian_type` accepts.
        vocabularies: From `vocabulary_files`.
        folder: An existing folder.
        decoding: Settings of the search, for decoder.yml.

    Raises:
        OSError: If a file cannot be written.
    """
    kind = marian_type(model)
    text = yaml_text(model_settings(model, kind, vocabularies)) + "\n\0"
    arrays: dict[str, Any] = {**_make_arrays(model, kind, vocabularies)}
    arrays[MODEL_SETTINGS] = np.frombuffer(text.encode(), np.int8)
    np.savez(folder / WEIGHTS, **arrays)
    for name, content in vocabularies.contents.items():
        (folder / name).write_bytes(content)
    (folder / "decoder.yml").write_text(
        yaml_text(decoder_settings(vocabularies, decoding)) + "\n", "utf-8"
    )


def _make_arrays(
    model: Transformer, kind: str, vocabularies: VocabularyFiles
) -> dict[str, np.ndarray]:
    """Returns the arrays of the weights' file, in float32."""
    sizes = model.sizes
    own = {weight.path.split("/", 1)[1]: weight for weight in model.weights}

    def read(path: str) -> np.ndarray:
        return np.asarray(ops.convert_to_numpy(own[path].value), np.float32)

    scales = _Scales.of(model, kind)
    arrays = _vocabulary_arrays(sizes, read, vocabularies, scales)
    if kind == NEW:
        arrays |= _position_arrays(model, read, scales)
    for stack in _STACKS:
        for name in stack_names(
            kind,
            stack,
            sizes[f"{stack}_layers"],
            pre_norm=sizes["normalization"] == "pre",
            activation=sizes["activation"],
        ):
            array = np.zeros(sizes["d_model"], np.float32)  # a bias, always there
            if name.ours in own:
                array = fit_heads(read(name.ours), name.ours, sizes)
                array = array * scales.of_weight(name.ours)
            is_row = kind == CLASSIC and not name.is_matrix
            arrays[name.theirs] = array[None] if is_row else array
    return {
        name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()
    }


class _Scales(NamedTuple):
    """Factors of the weights, which leave the function of the model as it is.

    Layer normalization ignores the scale of its input, but for the epsilon. So with a
    residual stream that is larger by c, an epsilon larger by c^2 computes the same.
    The new type does not multiply embeddings by sqrt(D): its table does, and what
    follows the decoder, if the output has the same table, divides by it.

    Attributes:
        stream: c.
        embedding: Factor of the embeddings.
        hidden: Factor of the decoder's output.
        last_norm: Path of the normalization that makes it.
        pre_norm: Whether layers are normalized before their sub-layers.
    """

    stream: float
    embedding: float
    hidden: float
    last_norm: str
    pre_norm: bool

    @classmethod
    def of(cls, model: Transformer, kind: str) -> "_Scales":
        sizes = model.sizes
        pre_norm = sizes["normalization"] == "pre"
        last = last_norm(sizes["decoder_layers"], pre_norm)
        if kind == CLASSIC:
            return cls(1.0, 1.0, 1.0, last, pre_norm)
        stream = (EPSILONS[kind] / sizes["layer_norm_epsilon"]) ** 0.5
        embedding = stream * sizes["d_model"] ** 0.5
        hidden = 1 / embedding if sizes["tie_output"] else 1.0
        return cls(stream, embedding, hidden, last, pre_norm)

    def of_weight(self, path: str) -> float:
        """Returns the factor of a weight of a stack."""
        if path.startswith(f"{self.last_norm}/"):
            return self.hidden
        if path.endswith(("gamma", "beta")):  # pre-norm ones leave the stream alone
            return 1.0 if self.pre_norm else self.stream
        if "/output_" in path or "/outer/" in path:  # added to the stream
            return self.stream
        if path.endswith("kernel") and not self.pre_norm:  # of the stream
            return 1 / self.stream
        return 1.0


def _vocabulary_arrays(
    sizes: Mapping[str, Any],
    read: Callable[[str], np.ndarray],
    vocabularies: VocabularyFiles,
    scales: _Scales,
) -> dict[str, np.ndarray]:
    target_VD = read("embedding/embeddings")[vocabularies.target] * scales.embedding
    bias_V = np.zeros(len(target_VD), np.float32)
    if sizes["output_bias"]:
        bias_V = read("embedding/output_bias")[vocabularies.target]
    arrays = {"decoder_ff_logit_out_b": bias_V[None]}
    if not sizes["tie_output"]:
        output_VD = read("embedding/output_matrix")[vocabularies.target]
        arrays["decoder_ff_logit_out_Wt"] = output_VD
    if sizes["share_embeddings"]:
        return {**arrays, "Wemb": target_VD}
    source_VD = read("source_embedding/embeddings")[vocabularies.source]
    arrays["encoder_Wemb"] = source_VD * scales.embedding
    return {**arrays, "decoder_Wemb": target_VD}


def _position_arrays(
    model: Transformer, read: Callable[[str], np.ndarray], scales: _Scales
) -> dict[str, np.ndarray]:
    """Returns the tables of positions; a piece that a decoder starts from is in it."""
    zeros = ops.zeros((1, length(model), model.sizes["d_model"]))
    # Given positions, learned ones past the last repeat it, as in a search.
    found = model.position_encoding(zeros, positions=ops.arange(length(model)))
    table_LD = np.array(ops.convert_to_numpy(found)[0]) * scales.stream
    tables = {stack: table_LD.copy() for stack in _STACKS}
    start = model.sizes["decoder_start"]
    if isinstance(start, int):
        row_D = read("embedding/embeddings")[start]
        tables["decoder"][0] += row_D * scales.embedding
    return {POSITIONS[stack]: table for stack, table in tables.items()}
