"""Accuracy and calibration of a model trained on the reverse task."""

import pytest


@pytest.mark.parametrize("beam_size", [1, 4])
def test_held_out_strings_are_reversed_exactly(reverse_run, make_translator, beam_size):
    sources = [source for source, _ in reverse_run.held_out]
    lines = make_translator(beam_size).translate(sources)
    exact = sum(
        line.text == target
        for line, (_, target) in zip(lines, reverse_run.held_out, strict=True)
    )
    assert exact / len(sources) >= 0.99, f"seed {reverse_run.seed}"


def test_the_model_is_calibrated(reverse_run, make_translator):
    """With label smoothing of 0.1, each correct token has a probability of 0.9."""
    sources = [source for source, _ in reverse_run.held_out[:100]]
    for line in make_translator(4).translate(sources):
        (best,) = line.hypotheses
        mean_log_prob = best.log_prob / best.num_tokens
        # ln 0.9 = -0.105; ln 0.5 = -0.69; ln 1 = 0.
        assert -0.35 < mean_log_prob < -0.03, f"seed {reverse_run.seed}: {line}"
