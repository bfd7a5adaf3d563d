"""Digests of files are those that the standard publishes."""

from t2t_keras.files.digests import file_sha256

# FIPS 180-2, appendix B. The second is longer than one block that is read.
EXAMPLES = (
    (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
        b"a" * 1_000_000,
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
    ),
)


def test_the_digests_are_the_published_ones(tmp_path) -> None:
    for content, digest in EXAMPLES:
        (tmp_path / "file").write_bytes(content)
        assert file_sha256(tmp_path / "file") == digest, len(content)
