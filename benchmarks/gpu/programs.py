"""Programs for any XLA device: an update of training, and a beam search.

TensorFlow on the CPU only traces what `t2t_keras.train` and an export run. The result
is a pure function: it takes features and variables, and returns sums or hypotheses, and
the next values of the variables.
"""

import dataclasses
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.gpu.initial_values import draw_value
from benchmarks.gpu.manifest import (
    SEARCH,
    UPDATE,
    Argument,
    Manifest,
    Result,
    save_program,
)
from benchmarks.gpu.program_text import (
    TensorType,
    compute_constants,
    find_replaced_arguments,
    largest_literal,
    main_types,
    replace_copies,
)
from benchmarks.product_step import (
    CONFIGS,
    ProductStep,
    build_product_step,
    count_update_flops,
    make_packed_batch,
    make_synthetic_batch,
)
from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.decoding.transformer_search import search_translations
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.training.profiling import forward_flops
from t2t_keras.training.step import shard_batch
from t2t_keras.typing import Batch

# Limit of characters, enough for the sinusoids of 128 positions of base. A constant
# that grows with batch or vocabulary is an error.
LARGEST_LITERAL = 512 * 1024
UPDATE_OUTPUTS = ("loss_sum", "log_loss_sum", "token_count", "gradient_norm")
SEARCH_OUTPUTS = ("tokens", "lengths", "log_probs", "scores")


@dataclasses.dataclass(frozen=True)
class Program:
    """What to write.

    Attributes:
        name: Name of its folder.
        config_name: Flagfile of `config`, without its suffix.
        config: Settings of the model and its training.
        device: "cpu" or "gpu", the device to make choices for.
        rows: Rows of a batch.
        source_length: Tokens per row of sources.
        target_length: Tokens per row of targets, or of every output of a search.
        packed: Whether a row of an update holds several pairs.
        beam_size: Hypotheses of a search.
        checked: Whether its first outputs are also computed on this CPU.
    """

    name: str
    config_name: str
    config: ExperimentConfig
    device: str
    rows: int = 0
    source_length: int = 0
    target_length: int = 0
    packed: bool = False
    beam_size: int = 4
    checked: bool = False


def write_update(program: Program, folder: Path) -> Manifest:
    """Writes the update of training into a folder.

    Raises:
        RuntimeError: If the program does not agree with its manifest.
    """
    step = build_step(program, program.config)
    batch = make_batch(program)
    shard = shard_batch(batch, replica=0, num_local=1)
    names = sorted(shard)

    def update(*features: Any) -> list[Any]:
        sums = step.stepper.train_replica(dict(zip(names, features, strict=True)))
        # No constants: XLA would leave them out of the results.
        return [*sums.losses, sums.gradient_norm]

    variables = (*step.model.variables, *step.optimizer.variables)
    traced = trace(update, [shard[name] for name in names], variables)
    return save(
        folder,
        program,
        traced,
        {name: shard[name] for name in names},
        kind=UPDATE,
        outputs=UPDATE_OUTPUTS,
        sizes=step.model.sizes,
        flops=count_update_flops(step, batch),
        tokens=int(batch["decoder_loss_weights"].sum()),
        expected=_compute_update(program) if program.checked else {},
    )


def write_search(program: Program, folder: Path) -> Manifest:
    """Writes the beam search of a batch into a folder.

    Every output has `target_length` tokens, as many as a source.

    Raises:
        RuntimeError: If the program does not agree with its manifest.
    """
    precision = program.config.training.precision
    model = _build_search_model(program, precision)
    source = make_batch(program)["encoder_input_tokens"]

    def search(source: Any) -> list[Any]:
        return list(_search(program, model, source))

    traced = trace(search, [source], model.variables)
    sizes = model.sizes
    return save(
        folder,
        program,
        traced,
        {"source": source},
        kind=SEARCH,
        outputs=SEARCH_OUTPUTS,
        sizes=sizes,
        flops=_search_flops(program, sizes),
        tokens=program.rows * program.target_length,
        expected=_compute_search(program) if program.checked else {},
    )


@dataclasses.dataclass(frozen=True)
class Traced:
    """A traced function.

    Attributes:
        text: Its StableHLO.
        variables: The variables behind its last arguments, in order.
    """

    text: str
    variables: list[Any]


def trace(
    function: Callable, features: Sequence[np.ndarray], variables: Sequence[Any]
) -> Traced:
    """Returns a function's StableHLO, whose arguments are features, then variables.

    Raises:
        RuntimeError: If it uses other variables than these.
    """
    specs = [tf.TensorSpec(each.shape, each.dtype) for each in features]
    traced = tf.function(function, jit_compile=True, autograph=False)
    text = traced.experimental_get_compiler_ir(*specs)(
        stage="stablehlo", platform_name="CPU"
    )
    known = {id(variable.value.handle): variable for variable in variables}
    captured = traced.get_concrete_function(*specs).captured_inputs
    unknown = [tensor for tensor in captured if id(tensor) not in known]
    if unknown:
        raise RuntimeError(
            "A program must rest on variables of its model and its optimizer alone. It "
            f"captured: {unknown}"
        )
    text = replace_copies(compute_constants(text))
    return Traced(text, [known[id(tensor)] for tensor in captured])


def build_step(program: Program, config: ExperimentConfig) -> ProductStep:
    """Returns the training step of a program with fresh weights."""
    _start_again()
    return build_product_step(
        config,
        config.data.vocabulary_size,
        packed=program.packed,
        device=program.device,
    )


def _build_search_model(program: Program, precision: str) -> Transformer:
    """Returns a model with weights in the dtype that it computes in, as exports do."""
    _start_again()
    trained = models.build_model(program.config, program.config.data.vocabulary_size)
    _start_again()
    model = type(trained)(**trained.sizes, dtype=precision)
    model.build()
    for ours, theirs in zip(model.variables, trained.variables, strict=True):
        ours.assign(tf.cast(theirs.value, ours.dtype))
    return model


def _start_again() -> None:
    """Lets names of layers and random numbers be those of all programs."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)


def make_batch(program: Program) -> Batch:
    """Returns the batch of a program."""
    make = make_packed_batch if program.packed else make_synthetic_batch
    return make(
        program.config.data.vocabulary_size,
        program.rows,
        program.source_length,
        program.target_length,
    )


def _search(program: Program, model: Transformer, source: Any) -> Any:
    # Without the early stop, every search continues to its limit.
    settings = BeamSearchSettings(beam_size=program.beam_size, early_stop=False)
    return search_translations(model, source, settings, 0, growing=False)


def _compute_update(program: Program) -> dict[str, float]:
    """Returns loss and gradient norm of the first update, in float32 on this CPU."""
    step = build_drawn_step(program)
    sums = step.stepper.train(make_batch(program))
    return {
        "loss": float(sums.losses.loss_sum) / float(sums.losses.token_count),
        "gradient_norm": float(sums.gradient_norm),
    }


def build_drawn_step(program: Program) -> ProductStep:
    """Returns the step in float32, for this CPU, with the program's initial values.

    Without XLA, which would take longer to compile it than to run it once.
    """
    training = dataclasses.replace(
        program.config.training, precision="float32", jit_compile=False
    )
    config = dataclasses.replace(program.config, training=training)
    step = build_step(dataclasses.replace(program, device="cpu"), config)
    _assign_drawn(step.model.variables)
    return step


def _compute_search(program: Program) -> dict[str, float]:
    """Returns the mean log probability of the best outputs, in float32 on this CPU."""
    model = _build_search_model(program, "float32")
    _assign_drawn(model.variables)
    result = _search(
        program, model, tf.constant(make_batch(program)["encoder_input_tokens"])
    )
    return {"log_prob": float(np.mean(result.log_probs[:, 0]))}


def _assign_drawn(variables: Sequence[keras.Variable]) -> None:
    for variable in variables:
        variable.assign(draw_value(_state(variable)))


def _search_flops(program: Program, sizes: dict[str, Any]) -> float:
    """Returns the FLOPs of a search: its encoder once, its decoder for each beam.

    A decoder's token attends to half of the output in the mean.
    """
    rows, length = program.rows, program.source_length
    encoder_only = {**sizes, "decoder_layers": 0, "vocabulary_size": 0}
    encoder = forward_flops(encoder_only, rows, length, 0)
    per_memory = (
        2 * sizes["d_model"] * sizes["num_heads"] * (sizes["d_k"] + sizes["d_v"])
    )
    memory = rows * length * sizes["decoder_layers"] * per_memory
    pairs = rows * program.beam_size
    whole = forward_flops(sizes, pairs, length, program.target_length)
    without = forward_flops(encoder_only, pairs, length, 0)
    decoder = whole - without - pairs * length * sizes["decoder_layers"] * per_memory
    per_key = sizes["num_heads"] * (sizes["d_k"] + sizes["d_v"])
    masked = pairs * program.target_length**2 * sizes["decoder_layers"] * per_key
    return encoder + memory + decoder - masked


def _state(variable: keras.Variable) -> Argument:
    value = np.asarray(keras.ops.convert_to_numpy(variable), "float64")
    std = float(value.std())
    return Argument(
        variable.path,
        tuple(variable.shape),
        variable.dtype,
        is_state=True,
        std=std,
        constant=0.0 if std else float(value.flat[0]),
    )


def save(
    folder: Path,
    program: Program,
    traced: Traced,
    features: dict[str, np.ndarray],
    *,
    outputs: Sequence[str],
    **fields: Any,
) -> Manifest:
    """Writes a program, after checks of its text; returns its manifest.

    Args:
        folder: Folder of the program.
        program: Its name, settings and sizes.
        traced: The program.
        features: Values of its first arguments, by name.
        outputs: Names of its first results.
        **fields: Other fields of the manifest.

    Raises:
        RuntimeError: If the program does not agree with its manifest.
    """
    arguments = (
        *(
            Argument(name, value.shape, str(value.dtype), is_state=False)
            for name, value in features.items()
        ),
        *map(_state, traced.variables),
    )
    results = _find_results(traced.text, arguments, outputs)
    _check(traced.text, arguments, results)
    manifest = Manifest(
        name=program.name,
        config=program.config_name,
        precision=program.config.training.precision,
        device=program.device,
        rows=program.rows,
        source_length=program.source_length,
        target_length=program.target_length,
        packed=program.packed,
        beam_size=program.beam_size if fields["kind"] == SEARCH else 0,
        commit=_commit(),
        tensorflow=tf.__version__,
        arguments=arguments,
        results=results,
        **fields,
    )
    save_program(folder, manifest, traced.text, features)
    return manifest


def _find_results(
    text: str, arguments: Sequence[Argument], outputs: Sequence[str]
) -> tuple[Result, ...]:
    """Returns the results: the outputs, then those that overwrite variables.

    Raises:
        RuntimeError: If a variable is overwritten twice, or a result is unknown.
    """
    replaced = find_replaced_arguments(text)
    _, types = main_types(text)
    places = range(len(outputs), len(types))
    states = [place for place, one in enumerate(arguments) if one.is_state]
    overwritten = sorted(replaced.values())
    # An update overwrites all of its variables, a search none.
    if sorted(replaced) != list(places) or overwritten not in ([], states):
        raise RuntimeError(
            f"The results behind {outputs} must be written over arguments {states}, "
            f"each over one. Received: {replaced}"
        )
    variables = [(replaced[place], arguments[replaced[place]]) for place in places]
    return (
        *(Result(name, *kind) for name, kind in zip(outputs, types, strict=False)),
        *(Result(one.name, one.shape, one.dtype, place) for place, one in variables),
    )


def _check(text: str, arguments: Sequence[Argument], results: Sequence[Result]) -> None:
    """Raises `RuntimeError` if types differ or a constant is too large."""
    for kind, stated, types in zip(
        ("arguments", "results"), (arguments, results), main_types(text), strict=True
    ):
        expected = [TensorType(one.shape, one.dtype) for one in stated]
        if expected != types:
            raise RuntimeError(
                f"The program's {kind} must be {expected}. Received: {types}"
            )
    longest = largest_literal(text)
    if longest > LARGEST_LITERAL:
        raise RuntimeError(
            "A program must not contain its constants: pass them in. Received one of "
            f"{longest:,} characters, where {LARGEST_LITERAL:,} is the most."
        )


def _commit() -> str:
    """Returns the commit of this checkout, "unknown" without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=7"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=CONFIGS, check=False
    )
    return done.stdout.strip() or "unknown"
