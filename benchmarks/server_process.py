"""Development server in its own process, for benchmarks and tests."""

import contextlib
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

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
        address: host:port.
        lines: Lines that it has printed so far.
    """

    process: subprocess.Popen
    address: str = ""
    lines: list[str] = field(default_factory=list)

    def memory_mb(self) -> float:
        """Returns its resident memory, in units of 2**20 bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        if match is None:
            raise RuntimeError(f"process {self.process.pid} has no memory: it ended")
        return int(match[1]) / 1024


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
    command = [sys.executable, "-m", "t2t_keras.serve", f"--model_base_path={base}"]
    # A model that cannot be loaded now cannot be loaded in a minute.
    command += ["--model_name=translate", "--port=0", "--max_num_load_retries=0"]
    command += flags
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        if batching:
            path = Path(folder) / "batching.config"
            path.write_text(batching)
            command += ["--enable_batching", f"--batching_parameters_file={path}"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True
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


def _read(server: ServerProcess, ready: threading.Event) -> None:
    """Reads the server's output to its end; one of the lines has the port."""
    with server.process.stdout or contextlib.nullcontext(()) as output:
        for line in output:
            server.lines.append(line.rstrip())
            match = re.match(r"serving .* on port (\d+)$", server.lines[-1])
            if match:
                server.address = f"localhost:{match[1]}"
                ready.set()
    ready.set()
