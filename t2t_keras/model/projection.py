"""Products of a sequence with matrices, made the way processors like them.

Shapes: B batch, L length, D width of the input, N width of an output.
"""

from keras import ops

from t2t_keras.typing import Tensor


def project(inputs: Tensor, *kernels: Tensor) -> list[Tensor]:
    """Returns `inputs @ kernel` for each kernel.

    All positions of all rows are the rows of one matrix, and the kernels stand side
    by side in another: one large product is faster than several small ones, and than
    a batch of products, whose gradient would keep a copy of the kernel for each row
    of the batch. Where there are many rows, copying the kernels costs little beside it.

    Args:
        inputs: [B, L, D] float.
        *kernels: [D, N] float each, N of its own; taken in the dtype of `inputs`.

    Returns:
        [B, L, N] for each kernel, in the dtype of `inputs`.
    """
    batch, length, width = ops.shape(inputs)
    sizes = [kernel.shape[1] for kernel in kernels]
    side_by_side = [ops.cast(kernel, inputs.dtype) for kernel in kernels]
    kernel_DN = side_by_side[0]
    if len(kernels) > 1:
        kernel_DN = ops.concatenate(side_by_side, axis=1)
    products = ops.matmul(ops.reshape(inputs, (-1, width)), kernel_DN)
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
    parts = ops.split(products, ends, axis=1) if ends else [products]
    return [ops.reshape(part, (batch, length, part.shape[1])) for part in parts]
