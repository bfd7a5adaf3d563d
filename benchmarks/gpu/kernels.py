"""Profile of a program on a device: time by kernel, and the kinds of kernels.

XLA names a kernel after the instruction of its optimized program, and that program says
which operations of the model each instruction computes.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax

from benchmarks.gpu.manifest import UPDATE

PRODUCTS = "matrix products"
# Patterns of the names of operations that a kernel computes; the first match wins.
_KINDS = (
    ("Adam", r"ResourceApplyAdam|global_norm"),
    ("softmax", r"attention\w*/(Softmax|.*softmax)"),
    ("LayerNorm with residual and dropout", r"/norm\w*/|moments"),
    ("dropout and residual", r"dropout"),
    ("biases and activation", r"BiasAdd|Relu"),
    ("attention, other", r"attention\w*/(Cast|SelectV2|mul|Maximum|sub|exp)"),
)
_LOSS = ("loss over the vocabulary", r"(^|/)while/")
_SEARCH = (
    ("candidates", r"TopK|top_k|sort"),
    ("KV cache", r"[Ss]catter"),
)
_MOVES = "transposes and copies"
# Names of kernels of libraries, and of instructions that compute a product.
_LIBRARIES = re.compile("cublas|gemm|cutlass|nvjet|xmma|matmul", re.I)
_PRODUCT = re.compile(r' dot\(|custom_call_target="\S*(cublas|gemm|matmul)')
_MOVING = re.compile("transpose|copy|concat|memcpy|pad|slice|convert", re.I)
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (.*)$")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")


class KernelKinds:
    """Kinds of the kernels of a program.

    Args:
        text: The optimized program, HLO as text.
        program_kind: Kind of the program, "update" or "search".
    """

    def __init__(self, text: str, program_kind: str):
        self._lines: dict[str, str] = {}
        self._bodies: dict[str, list[str]] = {}
        body: list[str] = []
        for line in text.splitlines():
            if opening := _COMPUTATION.match(line):
                body = self._bodies.setdefault(_normalize(opening[1]), [])
            elif instruction := _INSTRUCTION.match(line):
                self._lines[_normalize(instruction[1])] = line
                body.append(line)
        self._is_update = program_kind == UPDATE

    def is_container(self, kernel: str) -> bool:
        """Returns whether it is a loop or a call, whose kernels are counted already."""
        line = self._lines.get(_normalize(kernel), "")
        return bool(re.search(r" (while|call|conditional)\(", line))

    def classify(self, kernel: str) -> str:
        """Returns the kind of a kernel, by the name of its instruction."""
        lines = self._computed_lines(kernel)
        text = "\n".join(lines)
        if _LIBRARIES.search(kernel) or _PRODUCT.search(text):
            return PRODUCTS
        names = " ".join(re.findall(r'op_name="([^"]*)"', text))
        specific = (_LOSS,) if self._is_update else _SEARCH
        for kind, pattern in (*specific, *_KINDS):
            if re.search(pattern, names) or (not names and re.search(pattern, kernel)):
                return kind
        if _MOVING.search(kernel):
            return _MOVES
        return "other"

    def describe(self, kernel: str) -> str:
        """Returns a kernel's name with the shape and operation that it computes."""
        line = self._lines.get(_normalize(kernel), "")
        match = _INSTRUCTION.match(line)
        shape = match[2].split("{")[0].split(" ")[0] if match else ""
        names = re.findall(r'op_name="([^"]*)"', line)
        operation = "/".join(names[-1].split("/")[-3:]) if names else ""
        return " ".join(part for part in (kernel, shape, operation) if part)

    def _computed_lines(self, kernel: str) -> list[str]:
        """Returns the instruction of a kernel, and those of what it calls."""
        line = self._lines.get(_normalize(kernel))
        if line is None:
            return []
        lines = [line]
        for called in re.findall(r"calls=%?([\w.\-]+)", line):
            lines += self._bodies.get(_normalize(called), [])
        return lines


def _normalize(name: str) -> str:
    # Kernels of a GPU have no dots in their names.
    return name.replace(".", "_").replace("-", "_")


def time_kernels(run: Callable[[], None]) -> Counter[str]:
    """Returns the seconds of a run by name of the instruction of each kernel.

    Args:
        run: Function that does the work to record and waits for its end.

    Raises:
        RuntimeError: If the installed JAX cannot read its own recordings.
    """
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            run()
        files = sorted(Path(folder).rglob("*.xplane.pb"))
        if not files or not hasattr(jax.profiler, "ProfileData"):
            raise RuntimeError(
                "A profile needs jax.profiler.ProfileData and a recording. Received: "
                f"jax {jax.__version__} and {len(files)} recordings."
            )
        profile = jax.profiler.ProfileData.from_file(str(files[0]))
        return _sum_times(profile)


def _sum_times(profile) -> Counter[str]:
    planes = list(profile.planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:")]
    times: Counter[str] = Counter()
    for plane in devices or planes:
        for line in plane.lines:
            # A GPU has lines that sum up its streams. A CPU's threads also have
            # functions of the runtime, with C++ names, around those of the program.
            if devices and not line.name.startswith("Stream"):
                continue
            for event in line.events:
                if devices or ("XLA" in line.name.upper() and "::" not in event.name):
                    times[_instruction(event)] += event.duration_ns / 1e9
    return times


def _instruction(event) -> str:
    """Returns the name of the instruction that an event computes."""
    stats = dict(event.stats)
    return str(stats.get("hlo_op") or event.name)
