"""Requests for translations of lines."""

import pytest

from t2t_keras.decoding.sampling import Sampling
from t2t_keras.decoding.settings import LENGTH_PENALTIES
from t2t_keras.errors import UserError
from t2t_keras.runs.translation.request import TranslationRequest
from t2t_keras.runs.translators import search_settings
from t2t_keras.settings.decoding_config import DecodingConfig


def test_every_length_penalty_of_the_search_is_a_setting():
    for kind in LENGTH_PENALTIES:
        config = DecodingConfig().override(length_penalty=kind)
        assert search_settings(config).length_penalty == kind
    config = DecodingConfig(suppress_unknown=True, min_length=3, no_repeat_ngram=2)
    settings = search_settings(config, 2)
    assert (settings.suppressed, settings.min_length) == ((2,), 3)
    assert (settings.no_repeat_ngram, settings.n_best) == (2, 2)


def test_the_number_of_hypotheses():
    for request, beam_size, number in (
        (TranslationRequest(3), 4, 3),
        (TranslationRequest(3, Sampling()), 4, 3),
        (TranslationRequest(rerank="mbr"), 6, 6),
        (TranslationRequest(2, rerank="mbr", candidates=5), 6, 5),
        (TranslationRequest(rerank="mbr", sample=Sampling()), 6, 32),
        (TranslationRequest(40, rerank="mbr", sample=Sampling()), 6, 40),
    ):
        assert request.hypotheses(beam_size) == number, request


def test_requests_that_cannot_be_meant_are_refused():
    for values, message in (
        ({"candidates": 4}, "Add --rerank=mbr, or leave it out."),
        (
            {"n_best": 5, "candidates": 4, "rerank": "mbr"},
            "--candidates must be at least --n_best=5. Received: 4",
        ),
    ):
        with pytest.raises(UserError) as caught:
            TranslationRequest(**values)
        assert message in str(caught.value)
