"""Zip archives as OPUS gives them, written by zipfile, and what is refused."""

import gzip
import re
import zipfile

import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.parallel_text import open_parallel_text

CODES = ("en", "de")
OPUS = {
    "README": "about",
    "LICENSE": "rights",
    "Books.de-en.de": "eins\r\nz\u2028wei\n",
    "Books.de-en.en": "\ufeffone\ntwo",
    "Books.de-en.ids": "1\t1\n2\t2\n",
    "__MACOSX/._Books.de-en.en": "attributes",
    "sub/": "",
}
PAIRS = [(b"one", b"eins"), (b"two", "z\u2028wei".encode())]


@pytest.fixture
def write(tmp_path):
    def write_archive(members, compression=zipfile.ZIP_DEFLATED):
        path = tmp_path / "a.zip"
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return path

    return write_archive


def read(path, languages=CODES):
    return list(open_parallel_text([path], languages=languages).lines())


@pytest.mark.parametrize(
    "compression",
    [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA],
)
def test_the_members_with_the_languages_are_the_sides(write, compression):
    path = write(OPUS, compression)
    assert read(path) == PAIRS
    assert read(path, ("de", "en")) == [(target, source) for source, target in PAIRS]


@pytest.mark.parametrize(
    ("names", "languages"),
    [
        (("a/x.en", "b/y.de", "x.fr"), CODES),
        (("x.EN", "x.de_AT"), CODES),
        (("x.en", "x.en_GB", "x.de"), CODES),  # the very code before its variants
        (("x.en_GB", "x.en", "x.en_US"), ("en_GB", "en_US")),
        (("/x.en", "../x.de"), CODES),
    ],
)
def test_names_end_in_codes(write, names, languages):
    texts = {name: name for name in names}
    ((source, target),) = read(write(texts), languages)
    wanted = [source.decode(), target.decode()]
    assert len(set(wanted)) == 2 and set(wanted) <= set(names)
    assert wanted[0].lower().rpartition(".")[2] == languages[0].lower()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ("x.de-fr.de", "x.de-fr.fr", "README"),
            r"It has: README, x.de-fr.de, x.de-fr",
        ),
        (("x.en", "x.de", "y.en"), "one file that ends in .en and one in .de"),
        (("x.en-US", "x.en-GB", "x.de"), r"x.en-GB, x.en-US\. Set --source_language"),
        ((), r"It has: none\. .*unpack the archive"),
        (tuple(f"{i:02}" for i in range(30)), "18, 19, …. Set"),
    ],
)
def test_members_that_are_missing_or_ambiguous_are_listed(write, names, message):
    path = write(dict.fromkeys(names, "a"))
    with pytest.raises(UserError, match=rf"a\.zip must have .*{message}"):
        read(path)


def test_one_member_is_not_both_sides(write):
    for languages in (("en", "en"), ()):
        with pytest.raises(UserError, match="must have one file that ends in"):
            read(write(OPUS), languages)


def test_faults_of_members_name_them(write):
    for text, message in (
        (b"one\n", r"x\.en has 2 lines, but .*a\.zip/x\.de has 1\. Line i"),
        ("a\nb".encode("utf-16"), r"a\.zip/x\.de is text in UTF-16, but must be"),
        (b"\xff\n\xff", r"a\.zip/x\.de is not text in UTF-8: 2 of 2 lines"),
        (gzip.compress(b"a\nb")[:-9], r"x\.de is a damaged or incomplete gzip file"),
    ):
        path = write({"x.en": "a\nb", "x.de": text})
        with pytest.raises(UserError, match=message):
            read(path)
    assert read(write({"x.en": "a", "x.de": gzip.compress(b"b")})) == [(b"a", b"b")]


def test_damaged_archives_are_refused(write, tmp_path):
    whole = write({"x.en": "a\n" * 99, "x.de": "b\n" * 99}, 0).read_bytes()
    path = tmp_path / "a.zip"
    for content in (
        b"",
        b"a\tb\n",
        whole[:-30],
        whole.replace(b"b\nb\n", b"c\nc\n", 1),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"a\.zip is a damaged or incomplete zip"):
            read(path)
    # The bit of the general purpose flags that says it is encrypted.
    encrypted = bytearray(whole)
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        for found in re.finditer(re.escape(mark), whole):
            encrypted[found.start() + place] |= 1
    path.write_bytes(encrypted)
    with pytest.raises(UserError, match=r"a\.zip cannot be unpacked here .*encrypted"):
        read(path)
    (tmp_path / "a.tsv").write_bytes(whole)
    with pytest.raises(UserError, match=r"a zip archive, .* name it \.zip"):
        read(tmp_path / "a.tsv")
