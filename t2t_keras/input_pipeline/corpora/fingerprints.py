"""Fingerprints of training text: of all its pairs, in their order.

A fingerprint is the SHA-256 of 64-bit hashes of the pairs, one after another. So parts
of a text can be hashed in any place and joined later, and neither names of files nor
compression, nor the format in which both sides are stored matter. Releases up to 0.9
hashed the text itself, which takes one pass over all of it; fingerprints that they
stored are still compared.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterable

import numpy as np

# Before the digest, since release 0.10.
_OF_HASHES = "2-"


def hash_pairs(sources: Iterable[bytes], targets: Iterable[bytes]) -> np.ndarray:
    """Returns a hash of each pair, [n] uint64."""
    pairs = zip(sources, targets, strict=True)
    hash_bytes = hashlib.blake2b
    digests = [hash_bytes(b"%b\n%b\n" % p, digest_size=8).digest() for p in pairs]
    return np.frombuffer(b"".join(digests), "<u8")


def fingerprint_of(hashes: Iterable[np.ndarray]) -> str:
    """Returns the fingerprint of pairs with these hashes, in parts of any size."""
    digest = hashlib.sha256()
    for part in hashes:
        digest.update(np.ascontiguousarray(part, "<u8").data)
    return _OF_HASHES + digest.hexdigest()


def derived_fingerprint(fingerprint: str, *arrays: Iterable[np.ndarray]) -> str:
    """Returns the fingerprint of pairs with what arrays say about them.

    Args:
        fingerprint: That of the pairs.
        *arrays: For filters, which pairs are kept; for word alignments, the links. Each
            in parts of any size.
    """
    kind = _OF_HASHES if fingerprint.startswith(_OF_HASHES) else ""
    digest = hashlib.sha256(fingerprint.encode())
    for part in itertools.chain(*arrays):
        digest.update(np.ascontiguousarray(part).data)
    return kind + digest.hexdigest()


def is_same_text(stored: str, fingerprint: str, hash_text: Callable[[], str]) -> bool:
    """Returns whether a stored fingerprint is that of a text.

    Args:
        stored: By this release or an earlier one.
        fingerprint: That of the text.
        hash_text: Returns the fingerprint of earlier releases.
    """
    return stored == fingerprint or (is_old(stored) and stored == hash_text())


def is_old(fingerprint: str) -> bool:
    """Returns whether it is of a release up to 0.9, or of a dataset's metadata."""
    return not fingerprint.startswith(_OF_HASHES)


def shorten(fingerprint: str) -> str:
    """Returns the first digits of a fingerprint, for messages."""
    return f"{fingerprint.removeprefix(_OF_HASHES)[:12]}…"
