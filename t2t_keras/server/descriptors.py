"""File descriptors: how many the process may open, and which part connections take.

With none left, a native thread of TensorFlow ends the process, and Python can neither
import nor log. So connections leave some to all else, those of gRPC and those over HTTP
each without the other: gRPC's are limited to a share, which those over HTTP leave free.
"""

import contextlib
import resource

# What connections leave to all else: files of models, logs, TensorFlow's own.
_RESERVED = 16
# One of so many descriptors may be a gRPC connection.
_GRPC_DIVISOR = 4


def allow_many() -> None:
    """Has the system allow this process as many open files as it may have.

    Each connection is one. Often the limit is 1,024, unless a process asks for more.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    # macOS has a further limit, which it does not tell.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def limit() -> int | None:
    """Returns how many files this process may have open; None for no limit."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if most == resource.RLIM_INFINITY else most


def max_grpc_connections() -> int | None:
    """Returns how many connections gRPC may accept at a time; None for no limit."""
    most = limit()
    return None if most is None else max(1, most // _GRPC_DIVISOR)


def end_of_http() -> int | None:
    """Returns the number from which on a descriptor is none for a connection over HTTP.

    None for no limit. The system gives each file the smallest number that is free.
    Connections of gRPC that came before have small ones, and so count twice.
    """
    most = limit()
    return None if most is None else most - most // _GRPC_DIVISOR - _RESERVED
