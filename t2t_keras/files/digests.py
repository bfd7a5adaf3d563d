"""SHA-256 digests of files, which reveal damage and changes."""

import hashlib
from pathlib import Path


def file_sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's contents in hexadecimal, or raises `OSError`."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
