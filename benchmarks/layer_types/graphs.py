"""Matrix products in the graph of a layer: FLOPs, and the longest dependent chain."""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_PRODUCTS = frozenset(
    {"BatchMatMulV2", "Conv2D", "DepthwiseConv2dNative", "Einsum", "MatMul"}
)


def trace_graph(layer: Callable[[Any], Any], length: int, width: int) -> tf.Graph:
    """Returns the graph of the forward pass of one row."""
    layer(tf.zeros((1, length, width)))  # creates its weights
    spec = tf.TensorSpec((1, length, width), tf.float32)
    return tf.function(layer).get_concrete_function(spec).graph


def count_sequential_products(graph: tf.Graph) -> int:
    """Returns the length of the longest chain of products, each needing the last."""
    depth: dict[tf.Operation, int] = {}
    # Operations are in order of creation: inputs come before their users.
    for operation in graph.get_operations():
        before = [depth[tensor.op] for tensor in operation.inputs]
        depth[operation] = max(before, default=0) + (operation.type in _PRODUCTS)
    return max(depth.values(), default=0)


def count_flops(graph: tf.Graph) -> float:
    """Returns the multiplications and additions of all products in a graph."""
    return sum(
        _count_product_flops(operation)
        for operation in graph.get_operations()
        if operation.type in _PRODUCTS
    )


def _count_product_flops(operation: tf.Operation) -> float:
    left, right = (tuple(tensor.shape) for tensor in operation.inputs[:2])
    if operation.type == "Einsum":
        letters = operation.get_attr("equation").decode().split("->")[0].split(",")
        sizes: dict[str, int] = {}
        for part, shape in zip(letters, (left, right), strict=True):
            sizes.update(zip(part, shape, strict=True))
        return 2.0 * math.prod(sizes.values())
    output = math.prod(operation.outputs[0].shape)
    if operation.type == "MatMul":
        return 2.0 * output * left[0 if operation.get_attr("transpose_a") else 1]
    if operation.type == "BatchMatMulV2":
        return 2.0 * output * left[-2 if operation.get_attr("adj_x") else -1]
    # A filter is [height, width, inputs, outputs or outputs of each input].
    inputs = 1 if operation.type == "DepthwiseConv2dNative" else right[2]
    return 2.0 * output * right[0] * right[1] * inputs
