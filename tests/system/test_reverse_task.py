"""A model of the house learns a task that takes order to the last letter."""

import pytest


@pytest.mark.parametrize("beam_size", [1, 4])
def test_held_out_strings_come_out_exactly(reverse_run, translator_of, beam_size):
    sources = [source for source, _ in reverse_run.held_out]
    lines = translator_of(beam_size).translate(sources)
    exact = sum(
        line.text == target
        for line, (_, target) in zip(lines, reverse_run.held_out, strict=True)
    )
    assert exact / len(sources) >= 0.99, f"seed {reverse_run.seed}"


def test_the_model_is_sure_of_what_it_says_and_not_of_anything_else(
    reverse_run, translator_of
):
    """The label smoothing of 0.1 leaves 0.9 to each right token, and no more."""
    sources = [source for source, _ in reverse_run.held_out[:100]]
    for line in translator_of(4).translate(sources):
        (best,) = line.hypotheses
        mean_log_prob = best.log_prob / best.num_tokens
        # ln 0.9 = -0.105; half or all of the mass would be -0.69 and 0.
        assert -0.35 < mean_log_prob < -0.03, f"seed {reverse_run.seed}: {line}"
