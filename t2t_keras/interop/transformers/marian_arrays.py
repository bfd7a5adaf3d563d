"""Arrays of a MarianMT model that is written.

Shapes: V vocabulary, D model width, H heads.
"""

from collections.abc import Callable

import numpy as np
from keras import ops

from t2t_keras.interop.arrays import fit_heads
from t2t_keras.interop.imported_model import NO_LOGIT
from t2t_keras.interop.transformers.marian_settings import Ids, is_shared
from t2t_keras.interop.transformers.names import (
    BIAS,
    DECODER_EMBEDDING,
    ENCODER_EMBEDDING,
    OUTPUT,
    SHARED,
    STACKS,
    layer_names,
)
from t2t_keras.model.transformer import Transformer
from t2t_keras.text.vocabulary import PAD_ID

# Axis of the residual stream in each weight of a layer, by the end of its path.
_RESIDUAL_AXIS = (
    ("query_kernel", 0),
    ("key_kernel", 0),
    ("value_kernel", 0),
    ("output_kernel", 1),
    ("output_bias", 0),
    ("inner/kernel", 0),
    ("outer/kernel", 1),
    ("outer/bias", 0),
    ("gamma", 0),
    ("beta", 0),
)


def make_arrays(model: Transformer, ids: Ids) -> dict[str, np.ndarray]:
    """Returns the arrays of model.safetensors, in float32, by ids of `number_ids`."""
    sizes = model.sizes
    own = {weight.path.split("/", 1)[1]: weight for weight in model.weights}

    def read(path: str) -> np.ndarray:
        return np.asarray(ops.convert_to_numpy(own[path].value), np.float32)

    # Sines and cosines alternate here, and are halves of the vector there: the residual
    # stream is permuted, which every layer's weights undo.
    order_D = np.arange(sizes["d_model"])
    if sizes["position_layout"] == "interleaved":
        order_D = np.concatenate([order_D[0::2], order_D[1::2]])
    arrays = _vocabulary_arrays(model, ids, read)
    arrays = {
        name: array if name == BIAS else array[:, order_D]
        for name, array in arrays.items()
    }
    for stack in STACKS:
        for layer in range(sizes[f"{stack}_layers"]):
            for name in layer_names(stack, layer):
                if name.ours in own:
                    array = _permute(read(name.ours), name.ours, order_D)
                    array = fit_heads(array, name.ours, sizes)
                else:  # a bias, which they always have
                    array = np.zeros(sizes["d_model"], np.float32)
                arrays[name.theirs] = array.T if name.is_kernel else array
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _vocabulary_arrays(
    model: Transformer, ids: Ids, read: Callable[[str], np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns their arrays with a row for each id, before the permutation."""
    sizes = model.sizes
    target_VD = read("embedding/embeddings").copy()
    bias_V = np.zeros(len(target_VD), np.float32)
    if sizes["output_bias"]:
        bias_V = read("embedding/output_bias")
    if ids.blank is not None:
        target_VD = np.concatenate([target_VD, target_VD[:1]])
        bias_V = np.append(bias_V, bias_V[PAD_ID])
        bias_V[PAD_ID] = NO_LOGIT
    if ids.blank is not None or not sizes["tie_output"]:
        target_VD[PAD_ID] = 0.0
    arrays = {BIAS: bias_V[None, [*ids.target]]}
    if is_shared(model):
        return {**arrays, SHARED: target_VD[[*ids.target]]}
    source_VD = target_VD
    if not sizes["share_embeddings"]:
        source_VD = read("source_embedding/embeddings")
    arrays[DECODER_EMBEDDING] = target_VD
    arrays[ENCODER_EMBEDDING] = source_VD[: len(ids.source)]
    if not sizes["tie_output"]:
        arrays[OUTPUT] = read("embedding/output_matrix")
    return arrays


def _permute(array: np.ndarray, path: str, order_D: np.ndarray) -> np.ndarray:
    """Returns a weight of a layer with the residual stream in another order."""
    for name, axis in _RESIDUAL_AXIS:
        if path.endswith(name):
            return np.take(array, order_D, axis)
    return array
