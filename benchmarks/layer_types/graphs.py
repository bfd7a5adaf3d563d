"""What a traced layer holds: its products, and how many wait for one another."""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_PRODUCTS = frozenset(
    {"BatchMatMulV2", "Conv2D", "DepthwiseConv2dNative", "Einsum", "MatMul"}
)


def graph_of(layer: Callable[[Any], Any], length: int, width: int) -> tf.Graph:
    """Returns the graph of one row's forward pass."""
    layer(tf.zeros((1, length, width)))  # makes its weights
    spec = tf.TensorSpec((1, length, width), tf.float32)
    return tf.function(layer).get_concrete_function(spec).graph


def products_in_turn(graph: tf.Graph) -> int:
    """Returns the longest chain of products each of which needs the one before."""
    depth: dict[tf.Operation, int] = {}
    # In the order they were made: inputs come before what uses them.
    for operation in graph.get_operations():
        before = [depth[tensor.op] for tensor in operation.inputs]
        depth[operation] = max(before, default=0) + (operation.type in _PRODUCTS)
    return max(depth.values(), default=0)


def flops_of(graph: tf.Graph) -> float:
    """Returns multiplications and additions of all products of a graph."""
    return sum(
        _flops(operation)
        for operation in graph.get_operations()
        if operation.type in _PRODUCTS
    )


def _flops(operation: tf.Operation) -> float:
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
