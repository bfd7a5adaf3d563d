"""StableHLO text of a program: its types, aliases and constants."""

import re
from typing import NamedTuple

import numpy as np

from benchmarks.gpu.initial_values import mix

_MAIN = re.compile(r"func\.func (?:public )?@main\((.*)\) -> (.*) \{$", re.M)
_TENSOR = re.compile(r"tensor<([0-9x]*?)x?([a-z]+[0-9]+)>")
_ALIAS = re.compile(r"parameter_number = (\d+) .*?output_index = array<i64: (\d+)>")
_LITERAL = re.compile(r'dense<("0x[0-9A-Fa-f]*"|\[[^>]*\])>')
_INT32_LITERAL = re.compile(
    r'stablehlo\.constant dense<"0x([0-9A-F]+)"> : tensor<([0-9x]+)xi32>'
)
_MASK_LITERAL = re.compile(
    r'(%\w+) = stablehlo\.constant dense<"0x([0-9A-F]+)"> : tensor<([0-9x]+)xi1>'
)
_HASH_LITERAL = re.compile(
    r'(%\w+) = stablehlo\.constant dense<"0x([0-9A-F]+)"> : tensor<([0-9x]+)xui32>'
)
_COPY = re.compile(r"mhlo\.copy (%\w+) : (tensor<[^>]*>)")
_NUMPY_NAMES = (
    ("i1", "bool"),
    ("i32", "int32"),
    ("i64", "int64"),
    ("ui32", "uint32"),
    ("f16", "float16"),
    ("bf16", "bfloat16"),
    ("f32", "float32"),
)


class TensorType(NamedTuple):
    """Type of an argument or a result; `dtype` is NumPy's name."""

    shape: tuple[int, ...]
    dtype: str


def main_types(text: str) -> tuple[list[TensorType], list[TensorType]]:
    """Returns the types of a program's arguments and of its results, in order.

    Raises:
        ValueError: If the text has no main function, or an unknown data type.
    """
    match = _MAIN.search(text)
    if match is None:
        raise ValueError(
            f"A program must have a function @main. Received: {text[:200]!r}"
        )
    arguments, results = match.groups()
    return _types(arguments), _types(results)


def find_replaced_arguments(text: str) -> dict[int, int]:
    """Returns, by index of a result, the index of the argument that it overwrites.

    XLA itself states here which result is the new value of which variable.
    """
    return {int(result): int(argument) for argument, result in _ALIAS.findall(text)}


def largest_literal(text: str) -> int:
    """Returns the number of characters of a program's longest constant."""
    if "dense_resource<" in text:
        return len(text)  # a block of bytes at the end
    return max((len(literal) for literal in _LITERAL.findall(text)), default=0)


def compute_constants(text: str) -> str:
    """Returns the program with these constants computed instead: ranges, masks, hashes.

    TensorFlow folds constants before it calls XLA: the ids of the vocabulary, the
    causal mask, and in a loop the hashes of a row's elements, which dropout begins
    with. All would grow with the sizes of the model and the batch, and versions of MLIR
    differ in how they write the bits of a mask.
    """
    text = _MASK_LITERAL.sub(_replace_mask, _INT32_LITERAL.sub(_replace_range, text))
    return _HASH_LITERAL.sub(_replace_hashes, text)


def replace_copies(text: str) -> str:
    """Returns the program with its copies written in StableHLO, which has none.

    TensorFlow writes them as MHLO, which jax 0.11 refuses on a GPU. A conversion to the
    same type has the same result.
    """
    return _COPY.sub(r"stablehlo.convert \1 : (\2) -> \2", text)


def _replace_range(match: re.Match) -> str:
    """Returns the constant 0, 1, 2, ... as an iota, and any other unchanged."""
    values = np.frombuffer(bytes.fromhex(match[1]), "<i4")
    shape = _sizes(match[2])
    # A constant of equal elements is written as one value, whatever its shape.
    if max(shape) != values.size or not np.array_equal(values, np.arange(values.size)):
        return match[0]
    return f"stablehlo.iota dim = {shape.index(values.size)} : tensor<{match[2]}xi32>"


def _replace_mask(match: re.Match) -> str:
    """Returns a lower triangular mask as a comparison, and any other unchanged."""
    name, digits, sizes = match.groups()
    shape = _sizes(sizes)
    packed = np.frombuffer(bytes.fromhex(digits), "uint8")
    bits = np.unpackbits(packed, bitorder="little")
    rows, columns = shape[-2:] if len(shape) > 1 else (1, 1)
    triangle = np.tri(rows, columns, dtype="uint8").ravel()
    if packed.size != -(-triangle.size // 8) or triangle.size != np.prod(shape):
        return match[0]
    if not np.array_equal(bits[: triangle.size], triangle):
        return match[0]
    numbers = f"tensor<{sizes}xi32>"
    return (
        f"{name}_row = stablehlo.iota dim = {len(shape) - 2} : {numbers}\n"
        f"{name}_column = stablehlo.iota dim = {len(shape) - 1} : {numbers}\n"
        f"{name} = stablehlo.compare GE, {name}_row, {name}_column : "
        f"({numbers}, {numbers}) -> tensor<{sizes}xi1>"
    )


def _replace_hashes(match: re.Match) -> str:
    """Returns the hashes of 0, 1, 2, ... computed, and any other constant unchanged."""
    name, digits, sizes = match.groups()
    values = np.frombuffer(bytes.fromhex(digits), "<u4")
    if not np.array_equal(values, mix(np.arange(values.size, dtype="uint32"))):
        return match[0]
    kind, flat = f"tensor<{sizes}xui32>", f"tensor<{values.size}xui32>"
    lines = [
        f"{name}_flat = stablehlo.iota dim = 0 : {flat}",
        f"{name}_hash0 = stablehlo.reshape {name}_flat : ({flat}) -> {kind}",
    ]
    steps = (
        *(("shift_right_logical", 16), ("multiply", 0x7FEB352D)),
        *(("shift_right_logical", 15), ("multiply", 0x846CA68B)),
        ("shift_right_logical", 16),
    )
    for i, (operation, number) in enumerate(steps):
        before, shifted = f"{name}_hash{i}", f"{name}_hash{i}_by"
        after = name if i + 1 == len(steps) else f"{name}_hash{i + 1}"
        lines.append(f"{shifted}_number = stablehlo.constant dense<{number}> : {kind}")
        operands = f"{before}, {shifted}_number : {kind}"
        if operation == "multiply":
            lines.append(f"{after} = stablehlo.multiply {operands}")
            continue
        lines.append(f"{shifted} = stablehlo.{operation} {operands}")
        lines.append(f"{after} = stablehlo.xor {before}, {shifted} : {kind}")
    return "\n".join(lines)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split("x") if size)


def _types(text: str) -> list[TensorType]:
    names = dict(_NUMPY_NAMES)
    types = []
    for shape, dtype in _TENSOR.findall(text):
        if dtype not in names:
            raise ValueError(
                f"Types of a program must be of {sorted(names)}. Received: {dtype}"
            )
        types.append(TensorType(_sizes(shape), names[dtype]))
    return types
