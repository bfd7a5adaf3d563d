"""Requests whose translations have the terms of a glossary."""

import dataclasses
from collections.abc import Callable, Sequence

from t2t_keras.serving.client.translation_client import TranslatedText
from t2t_keras.text.glossary import Glossary, Term, unmet_terms

Texts = Sequence[str | bytes]
Answers = list[list[TranslatedText]]


def translate_with_glossary(
    texts: Texts,
    glossary: Glossary,
    force: Callable[[Texts, list[list[str]]], Answers],
    translate: Callable[[Texts], Answers],
) -> Answers:
    """Returns the translations of each text, with terms where it has some.

    Args:
        texts: The texts; bytes are UTF-8, and replaced where they are not.
        glossary: Terms to look up in them.
        force: Returns the translations of texts that have some of the target terms,
            "" of a text for which none was found.
        translate: Returns the translations of the other texts.
    """
    found = {
        number: terms
        for number, text in enumerate(texts)
        if (terms := glossary.find(text))
    }
    answers: dict[int, list[TranslatedText]] = {}
    if found:
        targets = [[term.target for term in terms] for terms in found.values()]
        forced = force([texts[number] for number in found], targets)
        pairs = zip(found, forced, strict=True)
        answers = {number: answer for number, answer in pairs if answer[0].text}
    others = [number for number in range(len(texts)) if number not in answers]
    if others:
        free = translate([texts[number] for number in others])
        answers |= zip(others, free, strict=True)
    return [
        _check_terms(answers[number], found.get(number, ()))
        for number in range(len(texts))
    ]


def _check_terms(
    answer: list[TranslatedText], terms: Sequence[Term]
) -> list[TranslatedText]:
    """Returns the translations, each with the terms that it does not have."""
    return [
        dataclasses.replace(each, unmet=unmet_terms(each.text, terms))
        for each in answer
    ]
