"""Exported XLA program: agrees with its manifest. compare.py shows that it trains."""

import numpy as np
import pytest

from benchmarks.gpu import write
from benchmarks.gpu.manifest import load_manifest
from benchmarks.product_step import build_product_step, make_synthetic_batch
from t2t_keras.settings.config import ExperimentConfig, ModelConfig

VOCABULARY, ROWS, SOURCE, TARGET = 50, 3, 5, 7
MODEL = ModelConfig(num_layers=1, d_model=8, d_ff=12, num_heads=2)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Training step and the folder of its program."""
    step = build_product_step(ExperimentConfig(model=MODEL), VOCABULARY)
    folder = tmp_path_factory.mktemp("program")
    write.write_program(
        step,
        make_synthetic_batch(VOCABULARY, ROWS, SOURCE, TARGET),
        folder,
        config="small",
        precision="float32",
        initial_values=True,
    )
    return step, folder


@pytest.mark.slow
def test_every_variable_goes_in_and_comes_out(written) -> None:
    step, folder = written
    manifest = load_manifest(folder)
    states = {one.name: one for one in manifest.arguments if one.is_state}
    variables = [*step.model.trainable_variables, *step.optimizer.variables]
    trained = len(step.model.trainable_variables)
    counts = 2  # steps, and those that applied
    assert len(states) == 3 * trained + counts
    assert {v.path: tuple(v.shape) for v in variables if v.path in states} == {
        name: one.shape for name, one in states.items()
    }
    replaced = [one for one in manifest.results if one.replaces is not None]
    assert [manifest.arguments[one.replaces].name for one in replaced] == list(states)
    assert [one.name for one in replaced] == list(states)
    sums = [one.name for one in manifest.results if one.replaces is None]
    assert sums == ["loss_sum", "log_loss_sum", "token_count", "gradient_norm"]


@pytest.mark.slow
def test_the_files_hold_what_the_first_step_takes(written) -> None:
    step, folder = written
    batch, initial = np.load(folder / "batch.npz"), np.load(folder / "initial.npz")
    for one in load_manifest(folder).arguments:
        value = (initial if one.is_state else batch)[one.name]
        assert (value.shape, str(value.dtype)) == (one.shape, one.dtype), one.name
        if one.is_state:
            assert value.mean() == pytest.approx(one.mean, abs=1e-6)
            assert value.std() == pytest.approx(one.std, abs=1e-6)
    embeddings = initial["transformer/embedding/embeddings"]
    np.testing.assert_array_equal(embeddings, step.model.output_embeddings.value)
    assert batch["encoder_input_tokens"].min() >= 3
    np.testing.assert_array_equal(batch["row_numbers"], [0, 1, 2])
