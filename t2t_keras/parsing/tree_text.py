"""Trees as sentence pairs: a parser is a translator from words into symbols.

The source is a tree's words with single blanks between them, the target its cleaned
and linearized form (section 6.3; ADR 0021).
"""

from collections.abc import Iterable, Iterator

from t2t_keras.parsing.cleaning import cleaned
from t2t_keras.parsing.linearization import linearized, words_of
from t2t_keras.parsing.trees import read_trees


def tree_pairs(lines: Iterable[bytes], name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yields sentence and symbols of each tree; of one without words, twice nothing.

    Args:
        lines: Penn Treebank brackets: any number of trees to a line, and of lines to
            a tree. Ill-formed UTF-8 stays as it is.
        name: Of the file, for messages.

    Raises:
        UserError: If something else stands there; the message names the line.
    """
    texts = (line.decode("utf-8", errors="surrogateescape") for line in lines)
    for tree in read_trees(texts, name):
        found = cleaned(tree)
        sides = (" ".join(words_of(found)), linearized(found)) if found else ("", "")
        source, target = (
            side.encode("utf-8", errors="surrogateescape") for side in sides
        )
        yield source, target
