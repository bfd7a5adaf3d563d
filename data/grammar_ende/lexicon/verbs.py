"""The verbs of `verbs.txt`, by the complements they take."""

from grammar_ende.lexicon.entries import Verb, verb_entries
from grammar_ende.lexicon.tables import table_rows


def _verbs(section: str) -> tuple[Verb, ...]:
    return verb_entries(table_rows("verbs.txt", section))


INTRANSITIVE: tuple[Verb, ...] = _verbs("intransitive")
TRANSITIVE: tuple[Verb, ...] = _verbs("transitive")
DATIVE: tuple[Verb, ...] = _verbs("dative")
DITRANSITIVE: tuple[Verb, ...] = _verbs("ditransitive")
PREPOSITIONAL: tuple[Verb, ...] = _verbs("prepositional")
MOTION: tuple[Verb, ...] = _verbs("motion")
POSITION: tuple[Verb, ...] = _verbs("position")
RESTING: tuple[Verb, ...] = _verbs("resting")
PLACING: tuple[Verb, ...] = _verbs("placing")
CLAUSAL: tuple[Verb, ...] = _verbs("clausal")
ASKING: tuple[Verb, ...] = _verbs("asking")
INFINITIVAL: tuple[Verb, ...] = _verbs("infinitival")
WEATHER: tuple[Verb, ...] = _verbs("weather")
COPULAS: tuple[Verb, ...] = _verbs("copula")
EXISTENCE: Verb = _verbs("existence")[0]
