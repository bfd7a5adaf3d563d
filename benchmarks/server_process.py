"""Development server in its own process, for benchmarks and tests."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

BATCHING = """
max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 100 }
num_batch_threads { value: 2 }
allowed_batch_sizes: [1, 2, 4, 8, 16, 32]
"""


@dataclass
class ServerProcess:
    """A server that accepts requests.

    Attributes:
        process: Process of `python -m t2t_keras.serve`.
        address: host:port of gRPC.
        rest_address: host:port of the REST API, "" without one.
        translation_api_address: host:port of the translation API, "" without one.
        lines: Lines that it has printed so far.
    """

    process: subprocess.Popen
    address: str = ""
    rest_address: str = ""
    translation_api_address: str = ""
    lines: list[str] = field(default_factory=list)

    def memory_mb(self) -> float:
        """Returns its resident memory, in units of 2**20 bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        if match is None:
            raise RuntimeError(f"process {self.process.pid} has no memory: it ended")
        return int(match[1]) / 1024

    def cpu_seconds(self) -> float:
        """Returns the time of processors that it has used so far."""
        return cpu_seconds(self.process)


def cpu_seconds(process: subprocess.Popen) -> float:
    """Returns the time of processors that a running process has used so far."""
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    # The second field, the name in parentheses, may have spaces.
    fields = stat.rpartition(")")[2].split()
    user, system = fields[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def start_python(*arguments: str, **settings: Any) -> subprocess.Popen:
    """Returns a process of Python with some arguments; settings are `Popen`'s."""
    return subprocess.Popen([sys.executable, *arguments], **settings)


@contextlib.contextmanager
def started_server(
    base: Path, *flags: str, batching: str = ""
) -> Iterator[ServerProcess]:
    """Yields a server of the model "translate".

    Args:
        base: Directory with a folder for each version.
        *flags: Additional flags of the server.
        batching: Text of the batching parameters file. Default: requests are not
            batched.

    Raises:
        RuntimeError: If it does not start, or does not end with status 143.
    """
    # A model that cannot be loaded now cannot be loaded in a minute.
    own = [f"--model_base_path={base}", "--model_name=translate", "--port=0"]
    own.append("--max_num_load_retries=0")
    with tempfile.TemporaryDirectory() as folder:
        if batching:
            path = Path(folder) / "batching.config"
            path.write_text(batching)
            own += ["--enable_batching", f"--batching_parameters_file={path}"]
        with started_command([*own, *flags]) as server:
            yield server


@contextlib.contextmanager
def started_command(flags: Sequence[str]) -> Iterator[ServerProcess]:
    """Yields `python -m t2t_keras.serve` with some flags.

    Raises:
        RuntimeError: If it does not start, or does not end with status 143.
    """
    with tempfile.TemporaryFile() as errors:
        process = start_python(
            "-m",
            "t2t_keras.serve",
            *flags,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        server = ServerProcess(process)
        ready = threading.Event()
        reader = threading.Thread(target=_read, args=(server, ready))
        reader.start()
        try:
            ready.wait()
            if server.address:
                yield server
            process.terminate()
            status = process.wait(60)
        finally:
            process.kill()
            process.wait()
            reader.join()
            errors.seek(0)
            error_text = errors.read().decode()
        if not server.address or status != 143:
            raise RuntimeError(f"the server ended with status {status}: {error_text}")


# Lines of the server, the last of them when it is ready.
_PORTS = MappingProxyType(
    {
        "rest_address": re.compile(r" REST API on port (\d+)$"),
        "translation_api_address": re.compile(r" translation API of .* on port (\d+)$"),
        "address": re.compile(r" serving .* on port (\d+)$"),
    }
)


def _read(server: ServerProcess, ready: threading.Event) -> None:
    """Reads the server's output to its end; some of the lines have its ports."""
    with server.process.stdout or contextlib.nullcontext(()) as output:
        for line in output:
            server.lines.append(line.rstrip())
            for name, pattern in _PORTS.items():
                match = pattern.search(server.lines[-1])
                if match:
                    setattr(server, name, f"localhost:{match[1]}")
            if server.address:
                ready.set()
    ready.set()
