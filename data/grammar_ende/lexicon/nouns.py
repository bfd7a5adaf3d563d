"""The nouns of `nouns.txt` and the first parts of compounds."""

from grammar_ende.lexicon.entries import Noun, noun_entries
from grammar_ende.lexicon.tables import table_rows

NOUNS: tuple[Noun, ...] = noun_entries(table_rows("nouns.txt"))

# English modifier noun → first part of the German compound, linking sound included.
COMPOUND_MODIFIERS: tuple[tuple[str, str], ...] = (
    ("station", "Bahnhofs"),
    ("kitchen", "Küchen"),
    ("garden", "Garten"),
    ("school", "Schul"),
    ("house", "Haus"),
    ("hotel", "Hotel"),
    ("office", "Büro"),
    ("church", "Kirchen"),
    ("museum", "Museums"),
    ("library", "Bibliotheks"),
    ("cellar", "Keller"),
)
