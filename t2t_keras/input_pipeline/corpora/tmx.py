"""Translation memories in TMX: units with the variants of a text in several languages.

Read by Expat of the standard library, event by event: nothing of the file stays in
memory but the unit that is read, it knows the line for messages, and it takes UTF-16
and encodings of one byte, too. lxml would need another package, and limits on the size
of texts and trees to be lifted. Expat loads no external entity or DTD, and a file that
declares entities of its own is refused, since these can multiply without end.

TMX 1.4b puts codes of the original format between `bpt` and `ept`, or into `ph`, `it`
or `ut`. They are left out with what is in them, `sub` included: the text of a footnote
or of an image is no part of the sentence around it. `hi` and unknown elements only mark
text, which stays.
"""

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from t2t_keras.errors import UserError
from t2t_keras.files.lines import open_blocks
from t2t_keras.input_pipeline.corpora.tables import one_line
from t2t_keras.text.languages import is_variant

_CODES = frozenset({"bpt", "ept", "ph", "it", "ut"})
# Types of codes that separate words: breaks of lines, pages and columns.
_BREAKS = frozenset({"lb", "pb", "cb"})
_MOST_LISTED = 10


def read_tmx(
    path: Path, languages: Sequence[str], warn: Callable[[str], object]
) -> Iterator[tuple[bytes, bytes]]:
    """Yields source and target of each unit that has both languages.

    A code is also that of its variants: en of en-US. If a unit has several texts of a
    language, the first counts.

    Args:
        path: The file, perhaps compressed.
        languages: Codes of source and target language.
        warn: Called at the end if units without both languages were left out.

    Raises:
        UserError: If the file is no TMX, is not well-formed, declares entities, or has
            units but none with both languages.
    """
    if not languages:
        raise UserError(
            f"{path} may have texts in many languages, and none are named here. Give "
            "the two languages, or files of text."
        )
    units = _Units(str(path), languages)
    with open_blocks(str(path)) as blocks:
        for block in blocks:
            yield from units.read(block)
        yield from units.read(b"", is_last=True)
    if not units.left_out:
        return
    codes = " and ".join(languages)
    counts = units.languages.most_common(_MOST_LISTED)
    found = ", ".join(f"{code} ({count:,})" for code, count in counts) or "none"
    if units.left_out == units.count:
        raise UserError(
            f"{path} has {units.count:,} units, but none in {codes}. Its languages "
            f"are: {found}. Set --source_language and --target_language to two of them."
        )
    warn(
        f"{units.left_out:,} of {units.count:,} units of {path} have no text in "
        f"{codes} and are left out. Languages of the file: {found}."
    )


class _Units:
    """Parser of the units of a TMX file.

    Attributes:
        count: Number of units so far.
        left_out: Number of them without both languages.
        languages: Number of variants in each language.
    """

    def __init__(self, path: str, languages: Sequence[str]):
        self.count = self.left_out = 0
        self.languages: collections.Counter[str] = collections.Counter()
        self._path = path
        self._wanted = languages
        self._pairs: list[tuple[bytes, bytes]] = []
        self._texts: list[tuple[str, str]] = []
        self._language = ""
        self._is_tmx = False
        # Parts of the text of a segment; None outside of one.
        self._parts: list[str] | None = None
        # Number of open elements of code, and what is in them.
        self._depth_in_code = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.SkippedEntityHandler = self._refuse_unknown

    def read(self, block: bytes, *, is_last: bool = False) -> list[tuple[bytes, bytes]]:
        """Returns the pairs that end in a block of the file."""
        try:
            self._parser.Parse(block, is_last)
        except (expat.ExpatError, ValueError, LookupError) as error:
            if isinstance(error, UserError):
                raise
            self._refuse(f"it is not well-formed XML ({error})")
        pairs, self._pairs = self._pairs, []
        return pairs

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        if not self._is_tmx and name != "tmx":
            self._refuse(f"the XML is not TMX, but begins with <{name}>")
        self._is_tmx = True
        if self._depth_in_code:
            self._depth_in_code += 1
        elif self._parts is not None:
            if name in _CODES:
                self._depth_in_code = 1
                if attributes.get("type") in _BREAKS:
                    self._parts.append(" ")
        elif name == "tu":
            self._texts = []
        elif name == "tuv":
            # TMX before 1.4 has lang.
            self._language = attributes.get("xml:lang", attributes.get("lang", ""))
        elif name == "seg":
            self._parts = []

    def _text(self, text: str) -> None:
        if self._parts is not None and not self._depth_in_code:
            self._parts.append(text)

    def _end(self, name: str) -> None:
        if self._depth_in_code:
            self._depth_in_code -= 1
        elif name == "seg" and self._parts is not None:
            self.languages[self._language or "without a language"] += 1
            self._texts.append((self._language, "".join(self._parts)))
            self._parts = None
        elif name == "tu":
            self._end_unit()

    def _end_unit(self) -> None:
        self.count += 1
        texts = dict(enumerate(self._texts))
        pair = []
        for code in self._wanted:
            # The same text is not both sides, whatever the codes.
            for number, (language, text) in texts.items():
                if is_variant(language, code):
                    pair.append(one_line(text.encode("utf-8")))
                    del texts[number]
                    break
        if len(pair) == 2:
            self._pairs.append((pair[0], pair[1]))
        else:
            self.left_out += 1

    def _refuse_entity(self, name: str, *_: object) -> NoReturn:
        self._refuse(f"it declares the entity {name}, and entities are not read")

    def _refuse_unknown(self, name: str, *_: object) -> NoReturn:
        self._refuse(f"the entity &{name}; is not defined in the file")

    def _refuse(self, fault: str) -> NoReturn:
        raise UserError(
            f"{self._path}, line {self._parser.CurrentLineNumber}: {fault}. Repair the "
            "file, export it again, or give it the ending of its format."
        )
