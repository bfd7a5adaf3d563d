"""Settings of beam search: the paper's defaults, and refused values."""

import pytest

from t2t_keras.decoding.settings import BeamSearchSettings


def test_the_defaults_are_the_papers():
    settings = BeamSearchSettings()
    assert (settings.beam_size, settings.alpha) == (4, 0.6)
    assert settings.results == 4


@pytest.mark.parametrize(("beam_size", "candidates"), [(1, 1), (2, 4), (21, 42)])
def test_one_beam_has_one_candidate_and_more_have_two_each(beam_size, candidates):
    assert BeamSearchSettings(beam_size=beam_size).candidates == candidates


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beam_size": 0}, r"beam_size must be at least 1\. .*beam_size=0"),
        ({"n_best": 0}, r"n_best must be from 1 to beam_size=4\. .*n_best=0"),
        ({"n_best": 5}, r"n_best must be from 1 to beam_size=4\. .*n_best=5"),
        ({"eos_id": 0}, r"eos_id must be positive, 0 being padding.*eos_id=0"),
        ({"eos_id": -1}, r"eos_id must be positive.*eos_id=-1"),
        ({"alpha": -0.5}, r"alpha must be .* at least 0\. .*alpha=-0\.5"),
        ({"length_penalty": "wu"}, r"one of gnmt, power, none\. .*length_penalty=wu"),
        ({"suppressed": (2, 1)}, r"must not contain eos_id=1.*suppressed=\(2, 1\)"),
        ({"min_length": -1}, r"min_length must be at least 0\. .*min_length=-1"),
        ({"no_repeat_ngram": -2}, r"at least 0\. .*no_repeat_ngram=-2"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        BeamSearchSettings(**values)
