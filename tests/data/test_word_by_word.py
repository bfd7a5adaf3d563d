"""Word-by-word baselines on grammar_ende: low scores, so that scores mean something.

Two translators that know words but no grammar. Both must stay below 30 BLEU.
"""

import collections
import itertools
import re
from collections.abc import Callable

import sacrebleu
from grammar_ende.corpus import SentencePair
from grammar_ende.lexicon import adverbials, modifiers
from grammar_ende.lexicon.nouns import NOUNS
from grammar_ende.spelled_numbers import english_number, german_number

from tests.data import words

LIMIT = 30.0


def dictionary() -> dict[str, str]:
    """Returns the dictionary form of every English word form of the lexicon."""
    entries = {"the": "der", "a": "ein", "an": "ein", "not": "nicht", "'s": "s"}
    entries |= {"is": "ist", "are": "sind", "was": "war", "has": "hat", "have": "haben"}
    for noun in NOUNS:
        entries |= {noun.en: noun.de, noun.en_plural: noun.de_plural}
    for adjective in modifiers.ADJECTIVES:
        entries[adjective.en] = adjective.de
    for verb in words.all_verbs():
        entries.setdefault(verb.en, verb.de_prefix + verb.de)
        entries.setdefault(verb.en + "s", verb.de_prefix + verb.de_third)
        entries.setdefault(verb.en_past, verb.de_prefix + verb.de_past)
        entries.setdefault(verb.en_participle, verb.de_participle)
    for entry in vars(modifiers).values():
        if isinstance(entry, modifiers.Preposition | modifiers.Modal):
            entries.setdefault(entry.en, entry.de)
    for pronoun in modifiers.PERSONAL_PRONOUNS:
        entries[pronoun.en_subject] = pronoun.de_nominative
        entries.setdefault(pronoun.en_object, pronoun.de_accusative)
    entries = _adverbs() | entries
    return entries | {english_number(each): german_number(each) for each in range(100)}


def _adverbs() -> dict[str, str]:
    entries = {}
    for value in vars(adverbials).values():
        for phrase in value if isinstance(value, tuple) else (value,):
            if isinstance(phrase, adverbials.Phrase) and " " not in phrase.de:
                word = re.findall(r" ([^\s()]+)\)", phrase.en)[-1]
                entries.setdefault(word.lower(), phrase.de)
    return entries


def most_faithful_companions(pairs: list[SentencePair]) -> dict[str, str]:
    """Returns for each English word the German word with the most similar sentences.

    The similarity of their sets of sentences is the Dice coefficient,
    2 |A and B| / (|A| + |B|).
    """
    english, german = collections.Counter(), collections.Counter()
    together: collections.Counter[tuple[str, str]] = collections.Counter()
    for pair in pairs:
        sources, targets = set(_words(pair.en)), set(_words(pair.de))
        english.update(sources)
        german.update(targets)
        together.update(itertools.product(sources, targets))
    best: dict[str, tuple[float, str]] = {}
    for (source, target), count in together.items():
        dice = 2 * count / (english[source] + german[target])
        best[source] = max(best.get(source, (0.0, "")), (dice, target))
    return {source: target for source, (_, target) in best.items()}


def score(test: list[SentencePair], translate: Callable[[str], str]) -> float:
    """Returns the BLEU of translating each word alone, first letter capitalized."""
    hypotheses = []
    for pair in test:
        joined = " ".join(translate(word) for word in _words(pair.en))
        text = re.sub(r" ([.,?])", r"\1", joined)
        hypotheses.append(text[0].upper() + text[1:])
    return sacrebleu.corpus_bleu(hypotheses, [[pair.de for pair in test]]).score


def _words(sentence: str) -> list[str]:
    first, rest = sentence[0].lower(), sentence[1:]
    return re.findall(r"[\w-]+|'s|[.,?]", first + rest)


def test_dictionary_forms_stay_below_the_limit(splits):
    entries = dictionary()
    assert 2 < score(splits.test, lambda word: entries.get(word, word)) < LIMIT


def test_learned_word_translations_stay_below_the_limit(splits):
    entries = most_faithful_companions(splits.train[:15_000])
    learned = {"dog": "Hund", "sleep": "schlafen", "because": "weil", "we": "wir"}
    assert {word: entries[word] for word in learned} == learned
    assert 5 < score(splits.test, lambda word: entries.get(word, word)) < LIMIT


def test_the_score_can_be_reached(splits):
    # The same scorer gives 100 to the true translations, so 30 is a low limit.
    references = [pair.de for pair in splits.test]
    assert sacrebleu.corpus_bleu(references, [references]).score > 99.9
