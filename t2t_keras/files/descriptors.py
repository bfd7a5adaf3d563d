"""File descriptors: how many files and connections a process may have open."""

import contextlib
import resource


def allow_many() -> None:
    """Has the system allow this process as many open files as it may have.

    Each connection is one, and each memory-mapped file. Often the limit is 1,024,
    unless a process asks for more.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    # macOS has a further limit, which it does not tell.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def limit() -> int | None:
    """Returns how many files this process may have open; None for no limit."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if most == resource.RLIM_INFINITY else most
