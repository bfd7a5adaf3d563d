"""Requests and table of the benchmark of the warm-up."""

import pytest

from benchmarks.warm_up import SIGNATURES, Measured, make_request, print_table
from t2t_keras.serving import signature

TEXT = frozenset({signature.TEXT})
PAIR = frozenset({signature.SOURCE, signature.TARGET})
OPTIONS = frozenset({signature.BEAM_SIZE, signature.ALPHA, signature.MAX_LENGTH})


def test_each_request_has_the_inputs_of_its_signature():
    inputs = {name: {*make_request(name).inputs} for name in SIGNATURES}
    assert inputs == {
        "serving_default": TEXT,
        "nbest": TEXT,
        "translate_with_options": TEXT | OPTIONS,
        "score": PAIR,
        "attention": PAIR,
        "translate_ids": {signature.INPUT_IDS},
    }
    for name in SIGNATURES:
        request = make_request(name)
        assert request.model_spec.signature_name == name
        shapes = [
            [dim.size for dim in each.tensor_shape.dim]
            for each in request.inputs.values()
        ]
        assert {shape[0] for shape in shapes} == {1}


@pytest.mark.parametrize("slowest", [1, 2])
def test_the_table_has_the_shortest_and_the_longest_time(capsys, slowest):
    def measured(factor):
        calls = {name: (factor * (3 + i), 0.5) for i, name in enumerate(SIGNATURES)}
        return Measured(factor * 20.0, factor * 10.0, calls)

    print_table({"all": [measured(1)], "none": [measured(slowest), measured(1)]})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| seconds | `all` | `none` |"
    assert f"| load | 10.00 to 10.00 | 10.00 to {slowest * 10}.00 |" in lines
    assert f"| `nbest`, first call | 4.00 to 4.00 | 4.00 to {slowest * 4}.00 |" in lines
    assert "| `nbest`, second call | 0.50 to 0.50 | 0.50 to 0.50 |" in lines
    assert len(lines) == 2 + 2 + 2 * len(SIGNATURES)
