"""Kinds of the kernels of a program.

XLA names a kernel after an instruction of its optimized program, and that program says
which operations of the model each instruction computes.
"""

import re

from benchmarks.gpu.hlo import Instruction, Module
from benchmarks.gpu.manifest import UPDATE

PRODUCTS, MOVES, OTHER = "matrix products", "transposes and copies", "other"
# Patterns of the names of operations that a kernel computes; the first match wins.
_UPDATE_KINDS = (
    # First, for a program of several updates has all of them in a loop.
    ("Adam", r"ResourceApplyAdam|global_norm"),
    ("loss over the vocabulary", r"(^|/)while/"),
)
_SEARCH_KINDS = (
    ("candidates", r"TopK|top_k|sort"),
    ("KV cache", r"[Ss]catter"),
    ("softmax", r"Softmax|while/Max\b"),
)
_KINDS = (
    ("softmax", r"attention\w*/Softmax"),
    ("LayerNorm with residual and dropout", r"/norm\w*/|moments"),
    ("dropout and residual", r"dropout"),
    ("biases and activation", r"BiasAdd|Relu"),
    ("attention, other", r"attention\w*/(Cast|SelectV2|mul|Maximum|sub|exp)"),
)
# Names of the kernels of libraries.
_LIBRARIES = re.compile("cublas|gemm|cutlass|nvjet|xmma|matmul", re.I)
_MOVING = re.compile("transpose|copy|concat|memcpy|pad|slice|convert", re.I)


class KernelKinds:
    """Kinds of the kernels of a program.

    Args:
        module: The optimized program.
        program_kind: Kind of the program, "update" or "search".
    """

    def __init__(self, module: Module, program_kind: str):
        self._module = module
        specific = _UPDATE_KINDS if program_kind == UPDATE else _SEARCH_KINDS
        self._kinds = (*specific, *_KINDS)

    def is_known(self, kernel: str) -> bool:
        """Returns whether an instruction of the program has the name of a kernel."""
        return self._module.find(kernel) is not None

    def is_container(self, kernel: str) -> bool:
        """Returns whether it is a loop or a call, whose kernels are counted already."""
        one = self._module.find(kernel)
        return one is not None and one.operation in ("while", "call", "conditional")

    def classify(self, kernel: str) -> str:
        """Returns the kind of a kernel, by the name of its instruction."""
        one = self._module.find(kernel)
        parts = [] if one is None else [one, *self._module.called(one)]
        if _LIBRARIES.search(kernel) or any(map(_is_product, parts)):
            return PRODUCTS
        names = " ".join(filter(None, map(_operation_name, parts)))
        for kind, pattern in self._kinds:
            if re.search(pattern, names):
                return kind
        described = kernel if one is None else f"{kernel} {one.operation}"
        return MOVES if _MOVING.search(described) else OTHER

    def describe(self, kernel: str) -> str:
        """Returns a kernel's name with the shape and operation that it computes."""
        one = self._module.find(kernel)
        if one is None:
            return kernel
        shape = one.type.split("{")[0]
        operation = "/".join(_operation_name(one).split("/")[-3:])
        return " ".join(filter(None, (kernel, shape, operation)))


def _is_product(one: Instruction) -> bool:
    is_library = one.operation == "custom-call" and _LIBRARIES.search(one.attributes)
    return one.operation == "dot" or bool(is_library)


def _operation_name(one: Instruction) -> str:
    """Returns the name of the operation of the model; empty if there is none."""
    names = re.findall(r'op_name="([^"]*)"', one.attributes)
    return names[0] if names else ""
