"""Exported XLA program: agrees with its manifest. compare.py shows that it trains."""

import json
import re

import numpy as np
import pytest

from benchmarks.product_step import build_product_step, make_synthetic_batch
from benchmarks.xla_program import write
from benchmarks.xla_program.manifest import load_manifest
from benchmarks.xla_program.program_text import (
    compute_constants,
    find_replaced_arguments,
    largest_literal,
    main_types,
    replace_copies,
)
from t2t_keras.settings.config import ExperimentConfig, ModelConfig, TrainingConfig
from t2t_keras.training.step import shard_batch

# A vocabulary whose ids would be a constant of 160,000 characters.
VOCABULARY, ROWS, SOURCE, TARGET = 20_000, 3, 5, 7
MODEL = ModelConfig(num_layers=1, d_model=8, d_ff=12, num_heads=2)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(precision, marks=pytest.mark.slow)
        for precision in ("float32", "bfloat16")
    ],
)
def written(request, tmp_path_factory):
    """Training step, folder of its program, and text of the program."""
    training = TrainingConfig(precision=request.param)
    config = ExperimentConfig(model=MODEL, training=training)
    step = build_product_step(config, VOCABULARY)
    folder = tmp_path_factory.mktemp(request.param)
    write.write_program(
        step,
        make_synthetic_batch(VOCABULARY, ROWS, SOURCE, TARGET),
        folder,
        config="small",
        precision=request.param,
        initial_values=True,
    )
    return step, folder, (folder / "program.mlir").read_text()


def test_the_manifest_has_the_types_of_the_program(written) -> None:
    _, folder, text = written
    manifest = load_manifest(folder)
    (head,) = re.findall(r"@main\((.*)\) -> \((.*)\) \{", text)
    mlir_names = {"float32": "f32", "int32": "i32", "int64": "i64"}
    for listed, stated in zip(
        head, (manifest.arguments, manifest.results), strict=True
    ):
        expected = [
            "x".join([*map(str, one.shape), mlir_names[one.dtype]]) for one in stated
        ]
        assert re.findall(r"tensor<(.*?)>", listed) == expected


def test_every_variable_goes_in_and_comes_out(written) -> None:
    step, folder, _ = written
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


def test_the_files_hold_what_the_first_step_takes(written) -> None:
    step, folder, _ = written
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


def test_nothing_large_and_nothing_foreign_is_compiled_in(written) -> None:
    _, _, text = written
    constants = re.findall(r"dense<[^>]*>", text)
    assert max(map(len, constants)) < 1_000 < VOCABULARY
    assert "dense_resource" not in text
    assert not re.search(r'dense<"0x[0-9A-F]*"> : tensor<[0-9x]*xi1>', text)
    assert "custom_call" not in text  # a kernel that another device may not have
    dialects = set(re.findall(r' = "?(\w+)\.\w+', text))
    assert "stablehlo" in dialects <= {"stablehlo", "chlo", "func"}


def test_flops_are_those_of_the_sizes(written) -> None:
    _, folder, _ = written
    manifest = load_manifest(folder)
    d, f = MODEL.d_model, MODEL.d_ff
    encoder = 8 * d * d + 4 * SOURCE * d + 4 * d * f
    decoder = 12 * d * d + 4 * (TARGET + SOURCE) * d + 4 * d * f + 2 * d * VOCABULARY
    forward = ROWS * (SOURCE * (encoder + 4 * d * d) + TARGET * decoder)
    assert manifest.flops_per_step == 3 * forward
    assert (manifest.rows, manifest.source_length) == (ROWS, SOURCE)
    assert (manifest.target_length, manifest.config) == (TARGET, "small")


def test_a_folder_without_a_program_is_refused(tmp_path) -> None:
    with pytest.raises(SystemExit, match="Write a program first"):
        load_manifest(tmp_path)


def test_a_program_of_another_format_is_refused(written, tmp_path) -> None:
    _, folder, _ = written
    values = json.loads((folder / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**values, "format": 99}))
    with pytest.raises(SystemExit, match=r"format 1.* Received: 99"):
        load_manifest(tmp_path)


def test_a_step_that_rests_on_other_variables_is_refused() -> None:
    step, other = (
        build_product_step(ExperimentConfig(model=MODEL), 50) for _ in range(2)
    )
    shard = shard_batch(make_synthetic_batch(50, ROWS, SOURCE, TARGET), 0, 1)
    with pytest.raises(RuntimeError, match="of its model and its optimizer alone"):
        write.trace_program(step._replace(optimizer=other.optimizer), shard)


PROGRAM = """module @m attributes {mhlo.input_output_alias = [{alias = {kind = \
"may_alias", parameter_index = array<i64>, parameter_number = 1 : i64}, output_index \
= array<i64: 0>}]} {
  func.func private @f(%arg0: tensor<9xf32>) -> tensor<9xf32> {
  }
  func.func @main(%arg0: tensor<2x13xi32> loc("A"), %arg1: tensor<bf16>) -> \
(tensor<bf16>, tensor<4xui32>) {
    %c = stablehlo.constant dense<"0x000000000100000002000000"> : tensor<1x3xi32>
    %d = stablehlo.constant dense<"0x000000000200000001000000"> : tensor<3x1xi32>
    %e = stablehlo.constant dense<"0x07000000"> : tensor<3xi32>
  }
}"""


def test_the_types_of_main_are_read_off_the_text() -> None:
    arguments, results = main_types(PROGRAM)
    assert arguments == [((2, 13), "int32"), ((), "bfloat16")]
    assert results == [((), "bfloat16"), ((4,), "uint32")]
    assert find_replaced_arguments(PROGRAM) == {0: 1}


def test_a_text_without_main_is_refused() -> None:
    with pytest.raises(ValueError, match="must have a function @main"):
        main_types(PROGRAM.replace("@main", "@other"))
    with pytest.raises(ValueError, match="Received: c64"):
        main_types(PROGRAM.replace("tensor<4xui32>", "tensor<4xc64>"))


def test_only_numbers_in_a_row_are_counted() -> None:
    text = compute_constants(PROGRAM)
    assert "%c = stablehlo.iota dim = 1 : tensor<1x3xi32>\n" in text
    unchanged = PROGRAM.splitlines()[-4:]
    assert text.splitlines()[-4:] == unchanged


def test_only_triangles_are_compared() -> None:
    def constant(mask: np.ndarray) -> str:
        bits = np.packbits(mask.ravel(), bitorder="little").tobytes().hex().upper()
        sizes = "x".join(map(str, mask.shape))
        return (
            f'%c_4 = stablehlo.constant dense<"0x{bits}"> : tensor<{sizes}xi1> loc(a)'
        )

    causal = np.tri(11, dtype=bool)[None]
    lines = compute_constants(constant(causal)).splitlines()
    assert lines == [
        "%c_4_row = stablehlo.iota dim = 1 : tensor<1x11x11xi32>",
        "%c_4_column = stablehlo.iota dim = 2 : tensor<1x11x11xi32>",
        "%c_4 = stablehlo.compare GE, %c_4_row, %c_4_column : "
        "(tensor<1x11x11xi32>, tensor<1x11x11xi32>) -> tensor<1x11x11xi1> loc(a)",
    ]
    flipped = causal.copy()
    flipped[0, 10, 10] = False
    for other in (
        flipped,
        causal.transpose(0, 2, 1),
        ~causal,
        np.tile(causal, (2, 1, 1)),
    ):
        assert compute_constants(constant(other)) == constant(other)
    assert compute_constants(constant(causal[0, 5])) == constant(causal[0, 5])


def test_copies_become_conversions() -> None:
    text = "%8 = mhlo.copy %7 : tensor<2x3xf32> loc(#loc4)\n%9 = f(%8) : tensor<2xi1>\n"
    assert replace_copies(text) == text.replace(
        "mhlo.copy %7 : tensor<2x3xf32>",
        "stablehlo.convert %7 : (tensor<2x3xf32>) -> tensor<2x3xf32>",
    )


def test_literals_are_measured() -> None:
    assert largest_literal(PROGRAM) == len('"0x000000000100000002000000"')
    assert largest_literal("dense<0.5> dense<[1, 2]>") == len("[1, 2]")
    text = "dense_resource<blob> {-# 0xABCD #-}"
    assert largest_literal(text) == len(text)


def _written_as(text: str, monkeypatch, folder) -> None:
    """Writes a program without variables, with a text that differs from the step's."""
    step = build_product_step(ExperimentConfig(model=MODEL), 50)
    batch = make_synthetic_batch(50, ROWS, SOURCE, TARGET)
    monkeypatch.setattr(write, "trace_program", lambda *_: (text, []))
    write.write_program(
        step, batch, folder, config="x", precision="float32", initial_values=False
    )


def test_a_program_of_other_types_or_with_constants_is_not_written(
    monkeypatch, tmp_path
) -> None:
    with pytest.raises(RuntimeError, match="must be written over"):
        _written_as(PROGRAM, monkeypatch, tmp_path / "program")
    plain = PROGRAM.replace("parameter_number", "")
    with pytest.raises(RuntimeError, match="arguments must be"):
        _written_as(plain, monkeypatch, tmp_path / "program")
    types = [f"tensor<3x7x{kind}>" for kind in ("i32", "f32", "i32")]
    types += ["tensor<3x5xi32>", "tensor<3xi32>"]
    heads = ", ".join(types), ", ".join(["tensor<f32>"] * 4)
    literal = f'dense<"0x{"AB" * write.LARGEST_LITERAL}">'
    text = f"func.func @main({heads[0]}) -> ({heads[1]}) {{\n{literal}\n}}"
    with pytest.raises(RuntimeError, match="must not contain its constants"):
        _written_as(text, monkeypatch, tmp_path / "program")
    assert not (tmp_path / "program").exists()
    _written_as(text.replace(literal, ""), monkeypatch, tmp_path / "program")
    assert load_manifest(tmp_path / "program").config == "x"
