"""Optimized program of XLA as text: its kernels, and the bytes that they move."""

import dataclasses
import math
import re
from collections.abc import Iterator

# Bytes of an element by HLO's name of its type.
_BYTES = r"(pred|[su]8|bf16|f16|[su]32|f32|[su]64|f64)\[([0-9,]*)\]"
# Instructions without a kernel.
_FREE = (
    "parameter",
    "constant",
    "tuple",
    "get-tuple-element",
    "bitcast",
    "iota",
    "after-all",
    "partition-id",
)
_CALLS = ("while", "call", "conditional", "async-start")
# Operations that change a part of their first operand in place.
_UPDATES = ("dynamic-update-slice", "scatter")
# Operations that read only a part of it.
_PARTIAL = ("dynamic-slice", "gather", "slice")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Kernel of a program.

    Attributes:
        name: Name of its instruction.
        runs: Number of runs.
        bytes: Bytes that a run reads and writes.
        flops: FLOPs of the matrix products of a run. Those that a library computes are
            not known.
    """

    name: str
    runs: int
    bytes: int
    flops: int


@dataclasses.dataclass(frozen=True)
class Instruction:
    """Instruction of a program.

    Attributes:
        name: Its name.
        type: Type of its result, a tuple's in parentheses.
        operation: Name of the operation.
        operands: Names of operands, with #1 for the second part of a tuple. Of a
            parameter its number.
        attributes: What follows the operands.
    """

    name: str
    type: str
    operation: str
    operands: tuple[str, ...]
    attributes: str


class Module:
    """HLO module, parsed as far as names and sizes need it.

    Args:
        text: The optimized program.

    Attributes:
        computations: Instructions by name, by name of the computation.
        entry: Name of the computation that runs first.
    """

    def __init__(self, text: str):
        self.computations: dict[str, dict[str, Instruction]] = {}
        self.entry = ""
        body: dict[str, Instruction] = {}
        for line in text.splitlines():
            if opening := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{$", line):
                body = self.computations.setdefault(opening[2], {})
                self.entry = opening[2] if opening[1] else self.entry
            elif instruction := _parse_instruction(line):
                body[instruction.name] = instruction
        self._by_kernel = {
            _normalize(name): one
            for body in self.computations.values()
            for name, one in body.items()
        }

    def find(self, name: str) -> Instruction | None:
        """Returns the instruction of a kernel; a GPU's have no dots in their names."""
        return self._by_kernel.get(_normalize(name))

    def list_kernels(self, turns: int = 1) -> Iterator[Kernel]:
        """Yields the kernels of the program.

        Args:
            turns: Number of turns of a loop if the program does not say it.
        """
        yield from self._walk(self.entry, 1, turns)

    def called(self, one: Instruction) -> list[Instruction]:
        """Returns the instructions that a fusion consists of; none for others."""
        name = re.search(r"calls=%?([\w.\-]+)", one.attributes)
        return list(self.computations.get(name[1], {}).values()) if name else []

    def _walk(self, computation: str, runs: int, turns: int) -> Iterator[Kernel]:
        """Yields the kernels of a computation that runs a number of times."""
        for one in self.computations[computation].values():
            if one.operation in _FREE:
                continue
            if one.operation in _CALLS:
                known = re.search(r'known_trip_count":\{"n":"(\d+)"', one.attributes)
                unknown = turns if one.operation == "while" else 1
                count = runs * (int(known[1]) if known else unknown)
                pattern = r"(?:body|to_apply|calls)=%([\w.\-]+)"
                for called in re.findall(pattern, one.attributes):
                    yield from self._walk(called, count, turns)
                continue
            size = self._traffic(computation, one)
            yield Kernel(one.name, runs, size, self._flops(computation, one))

    def _flops(self, computation: str, one: Instruction) -> int:
        if one.operation != "dot":
            called = re.search(r"calls=%?([\w.\-]+)", one.attributes)
            body = self.computations.get(called[1], {}) if called else {}
            return sum(self._flops(called[1], each) for each in body.values())
        axes = re.search(r"lhs_contracting_dims=\{([0-9,]*)\}", one.attributes)
        sizes = _shape(self._type(computation, one.operands[0]))
        depth = math.prod(sizes[int(axis)] for axis in axes[1].split(","))
        return 2 * math.prod(_shape(one.type)) * depth

    def _traffic(self, computation: str, one: Instruction) -> int:
        operands = [self._type(computation, name) for name in one.operands]
        if one.operation == "dynamic-update-slice":
            return 2 * _size(operands[1])
        body = {each.name: each for each in self.called(one)}
        if not body:
            # A library's workspace, the last result of its call, is no traffic.
            written = one.type.split(", s8[")[0]
            return _size(written) + sum(map(_size, operands))
        sizes = map(_size, operands)
        read = sum(_read_bytes(body, number, size) for number, size in enumerate(sizes))
        return read + _written_bytes(body, _size(one.type))

    def _type(self, computation: str, operand: str) -> str:
        name, _, part = operand.partition("#")
        kind = self.computations[computation][name].type
        return re.findall(r"\w+\[[0-9,]*\]", kind)[int(part)] if part else kind


def _normalize(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")


def _parse_instruction(line: str) -> Instruction | None:
    match = re.match(
        r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$", line
    )
    if match is None:
        return None
    operands, _, attributes = match[4].partition(")")
    names = re.findall(r"%([\w.\-]+(?:#\d+)?)", operands)
    if match[3] == "parameter":
        names = [operands]  # its number
    return Instruction(match[1], match[2], match[3], tuple(names), attributes)


def _size(kind: str) -> int:
    """Returns the bytes of a type, or of all parts of a tuple."""
    total = 0
    for name, sizes in re.findall(_BYTES, kind):
        size = 1 if name == "pred" else int(name.lstrip("bfsu")) // 8
        total += size * math.prod(int(part) for part in sizes.split(",") if part)
    return total


def _shape(kind: str) -> list[int]:
    """Returns the sizes of the axes of an array's type."""
    sizes = kind.partition("[")[2].partition("]")[0]
    return [int(part) for part in sizes.split(",") if part]


def _read_bytes(body: dict[str, Instruction], number: int, size: int) -> int:
    """Returns what a fusion reads of an operand: of a table, only the rows it takes."""
    same = [
        one.name
        for one in body.values()
        if one.operation == "parameter" and one.operands == (str(number),)
    ]
    read = 0
    while same:
        name = same.pop()
        for user in body.values():
            if name not in user.operands:
                continue
            if user.operation in ("bitcast", "convert", "reshape"):
                same.append(user.name)
            elif user.operation in _PARTIAL and user.operands[0] == name:
                read += _size(user.type)
            elif not (user.operation in _UPDATES and user.operands[0] == name):
                return size
    return min(read, size)


def _written_bytes(body: dict[str, Instruction], size: int) -> int:
    """Returns what a fusion writes: of an operand that it updates, only the update."""
    root = list(body.values())[-1]
    if root.operation not in _UPDATES:
        return size
    updated, *others = root.operands
    if body[updated].operation not in ("parameter", "bitcast"):
        return size
    update = others[0] if root.operation == "dynamic-update-slice" else others[-1]
    return _size(body[update].type)
