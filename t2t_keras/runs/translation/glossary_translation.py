"""Translation of lines with the terms of a glossary."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_keras.decoding.terms import BEAMS_WITH_TERMS
from t2t_keras.errors import UserError
from t2t_keras.runs import models, translators
from t2t_keras.runs.tasks import check_translates
from t2t_keras.runs.translation.request import TranslationRequest
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.glossary import Term, read_glossary, unmet_terms
from t2t_keras.text.term_encoder import TermEncoder
from t2t_keras.translation.translator import EMPTY, TranslatedLine, Translator


class GlossaryTranslation:
    """Translator of lines that have terms; other lines are for a search without terms.

    Args:
        trained: The model.
        decoding: Settings of the search.
        request: Number and kind of the translations, with a glossary.

    Raises:
        UserError: If the glossary cannot be used, the vocabulary lacks a term, or the
            model is a parser.
    """

    def __init__(
        self,
        trained: models.TrainedModel,
        decoding: DecodingConfig,
        request: TranslationRequest,
    ):
        check_translates(trained.config.data.target_language, "glossary")
        self._glossary = read_glossary(request.glossary or "")
        encoder = TermEncoder(trained.vocabulary)
        self._ids = {term: _encode(term, encoder) for term in self._glossary.terms}
        self._translator = translators.text_translator(
            trained,
            widen_beam(decoding),
            request.hypotheses(decoding.beam_size),
            None,
            request.with_prefixes,
            with_terms=True,
        )

    def find(self, texts: Sequence[str | bytes]) -> list[list[Term]]:
        """Returns the terms of each text."""
        return [self._glossary.find(text) for text in texts]

    def translate(
        self,
        sources: Sequence[str | bytes],
        terms: Sequence[Sequence[Term]],
        without_terms: Translator,
        options: Mapping[str, Any],
    ) -> list[TranslatedLine]:
        """Returns the translations of each line.

        Args:
            sources: Sources of the model.
            terms: Terms of each.
            without_terms: Translates those that have none, and those for which the
                search finds nothing with their terms.
            options: Further arguments of the translator, for all lines.
        """
        with_terms = self._translator.translate(
            _keep(sources, [bool(each) for each in terms]),
            terms=[[self._ids[term] for term in each] for each in terms],
            **options,
        )
        has_found = [line.hypotheses != (EMPTY,) for line in with_terms]
        others = without_terms.translate(
            _keep(sources, [not each for each in has_found]), **options
        )
        lines = [
            with_terms[number] if has_found[number] else others[number]
            for number in range(len(sources))
        ]
        return [
            dataclasses.replace(line, unmet=unmet_terms(line.text, each))
            for line, each in zip(lines, terms, strict=True)
        ]


def widen_beam(decoding: DecodingConfig) -> DecodingConfig:
    """Returns the settings of a search with terms."""
    beam_size = BEAMS_WITH_TERMS * decoding.beam_size
    return dataclasses.replace(decoding, beam_size=beam_size)


def _encode(term: Term, encoder: TermEncoder) -> list[int]:
    ids = encoder.encode(term.target)
    if not ids:
        raise UserError(
            f"The vocabulary cannot write the term {term.target!r}, the translation of "
            f"{term.source!r} (--glossary): it has a character without a piece. Leave "
            "it out."
        )
    return ids


def _keep(sources: Sequence[str | bytes], is_kept: Sequence[bool]) -> list[str | bytes]:
    """Returns the sources; others are empty, and cost nothing."""
    pairs = zip(sources, is_kept, strict=True)
    return [source if kept else "" for source, kept in pairs]
