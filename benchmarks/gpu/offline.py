"""What XLA makes of a program for a GPU that is not there: memory, kernels, traffic.

    python -m benchmarks.gpu.offline --program=DIR/NAME ...

Compiles for the target without a device, in seconds on a CPU. Nothing is run and no
kernel is tuned, so this gives no speed; but it shows what a change of the model does to
the kernels, and to the bytes that they read and write. Needs Linux, JAX and its plugin
for CUDA: `pip install jax jax-cuda13-plugin jax-cuda13-pjrt`.
"""

import argparse
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.gpu.executable import compile_offline
from benchmarks.gpu.kernels import KernelKinds
from benchmarks.gpu.manifest import load_manifest, load_program_text

# Data sheet, and what CUDA reports of such a card. XLA reads sizes and rates from it.
H100 = """
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  memory_bandwidth: 3352320000000
  device_memory_size: 84929347584
  l2_cache_size: 52428800
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  threads_per_warp: 32
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  registers_per_block_limit: 65536
  registers_per_core_limit: 65536
}
platform_name: "CUDA"
runtime_version { major: 13 }
dnn_version_info { major: 9 minor: 12 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
# Bytes of an element by HLO's name of its type.
_BYTES = r"(pred|[su]8|bf16|f16|[su]32|f32|[su]64|f64)\[([0-9,]*)\]"
# Instructions without a kernel.
_FREE = (
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "iota"),
    *("after-all", "partition-id"),
)
_CALLS = ("while", "call", "conditional", "async-start")
# Operations that read only a part of their first operand.
_PARTIAL = ("dynamic-slice", "gather", "slice")


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a table for each program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", type=Path, nargs="+", required=True)
    args = parser.parse_args(argv)
    for folder in args.program:
        manifest = load_manifest(folder)
        text, planned = compile_offline(load_program_text(folder), H100)
        print(f"{manifest.name}: {planned / 1e9:.2f} GB of memory\n")
        print("| kind | kernels | GB read and written |\n| --- | --- | --- |")
        kinds = KernelKinds(text, manifest.kind)
        kernels, traffic = Counter[str](), Counter[str]()
        for kernel in list_kernels(text):
            kind = kinds.classify(kernel.name)
            kernels[kind] += kernel.runs
            traffic[kind] += kernel.runs * kernel.bytes
        for kind, size in traffic.most_common():
            print(f"| {kind} | {kernels[kind]:,} | {size / 1e9:.2f} |")
        total = sum(traffic.values()) / 1e9
        print(f"| all | {sum(kernels.values()):,} | {total:.2f} |\n", flush=True)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Kernel of a program.

    Attributes:
        name: Name of its instruction.
        runs: Number of runs; 1 in a loop whose number of turns is not known.
        bytes: Bytes that a run reads and writes.
    """

    name: str
    runs: int
    bytes: int


def list_kernels(text: str) -> Iterator[Kernel]:
    """Yields the kernels of an optimized program, HLO as text."""
    module = _Module(text)
    yield from module.walk(module.entry, 1)


@dataclasses.dataclass(frozen=True)
class _Instruction:
    name: str
    type: str
    operation: str
    operands: tuple[str, ...]
    attributes: str


class _Module:
    """HLO module, parsed as far as sizes need it."""

    def __init__(self, text: str):
        self.computations: dict[str, dict[str, _Instruction]] = {}
        self.entry = ""
        body: dict[str, _Instruction] = {}
        for line in text.splitlines():
            if opening := re.match(r"(ENTRY )?%([\w.\-]+) \(.*\{$", line):
                body = self.computations.setdefault(opening[2], {})
                self.entry = opening[2] if opening[1] else self.entry
            elif instruction := _parse_instruction(line):
                body[instruction.name] = instruction

    def walk(self, computation: str, runs: int) -> Iterator[Kernel]:
        """Yields the kernels of a computation that runs a number of times."""
        for one in self.computations[computation].values():
            if one.operation in _FREE:
                continue
            if one.operation in _CALLS:
                turns = re.search(r'known_trip_count":\{"n":"(\d+)"', one.attributes)
                pattern = r"(?:body|to_apply|calls)=%([\w.\-]+)"
                for called in re.findall(pattern, one.attributes):
                    yield from self.walk(called, runs * int(turns[1] if turns else 1))
                continue
            yield Kernel(one.name, runs, self._traffic(computation, one))

    def _traffic(self, computation: str, one: _Instruction) -> int:
        operands = [self._type(computation, name) for name in one.operands]
        if one.operation == "dynamic-update-slice":
            return 2 * _size(operands[1])
        called = re.search(r"calls=%([\w.\-]+)", one.attributes)
        if called is None:
            # A library's workspace, the last result of its call, is no traffic.
            written = one.type.split(", s8[")[0]
            return _size(written) + sum(map(_size, operands))
        body = self.computations[called[1]]
        sizes = map(_size, operands)
        read = sum(_read_bytes(body, number, size) for number, size in enumerate(sizes))
        return read + _written_bytes(body, _size(one.type))

    def _type(self, computation: str, operand: str) -> str:
        name, _, part = operand.partition("#")
        kind = self.computations[computation][name].type
        return re.findall(r"\w+\[[0-9,]*\]", kind)[int(part)] if part else kind


def _parse_instruction(line: str) -> _Instruction | None:
    match = re.match(r"\s+(?:ROOT )?%([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$", line)
    if match is None:
        return None
    operands, _, attributes = match[4].partition(")")
    names = re.findall(r"%([\w.\-]+(?:#\d+)?)", operands)
    if match[3] == "parameter":
        names = [operands]  # its number
    return _Instruction(match[1], match[2], match[3], tuple(names), attributes)


def _size(kind: str) -> int:
    """Returns the bytes of a type, or of all parts of a tuple."""
    total = 0
    for name, sizes in re.findall(_BYTES, kind):
        size = 1 if name == "pred" else int(name.lstrip("bfsu")) // 8
        for part in filter(None, sizes.split(",")):
            size *= int(part)
        total += size
    return total


def _read_bytes(body: dict[str, _Instruction], number: int, size: int) -> int:
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
            elif not (
                user.operation == "dynamic-update-slice" and user.operands[0] == name
            ):
                return size
    return min(read, size)


def _written_bytes(body: dict[str, _Instruction], size: int) -> int:
    """Returns what a fusion writes: of an array that it updates, only the update."""
    root = list(body.values())[-1]
    if root.operation == "dynamic-update-slice":
        return _size(body[root.operands[1]].type)
    return size


if __name__ == "__main__":
    main()
