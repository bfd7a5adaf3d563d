"""Peers of the GPU benchmark: they do the work of the programs, on a CPU here."""

import dataclasses
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu.manifest import SEARCH, UPDATE, Manifest, save_program
from benchmarks.gpu.peers import arguments, marian_search, pytorch_step
from benchmarks.gpu.results import Results
from tests.reference import transformer_np, weights_np

REPOSITORY = Path(__file__).parents[2]
ROWS, SOURCE, TARGET, BEAM = 3, 5, 7, 4
SIZES = {
    "vocabulary_size": 43,
    "num_layers": None,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "d_model": 12,
    "d_ff": 20,
    "num_heads": 3,
    "d_k": 4,
    "d_v": 4,
    "dropout_rate": 0.1,
    "normalization": "post",
}


def make_manifest(kind: str, precision: str = "float32", **sizes) -> Manifest:
    return Manifest(
        name="small",
        kind=kind,
        config="small",
        precision=precision,
        device="gpu",
        rows=ROWS,
        source_length=SOURCE,
        target_length=TARGET,
        tokens=ROWS * TARGET,
        packed=False,
        beam_size=BEAM if kind == SEARCH else 0,
        sizes={**SIZES, **sizes},
        flops=1.0,
        expected={},
        commit="",
        tensorflow="",
        arguments=(),
        results=(),
    )


def run_peer(name: str, manifest: Manifest, folder: Path, *options: str) -> list[dict]:
    """Returns the lines that a peer's program adds for a written program."""
    save_program(folder / manifest.name, manifest, "", {})
    out = folder / "results" / "lines.jsonl"
    command = [sys.executable, "-m", f"benchmarks.gpu.peers.{name}", f"--out={out}"]
    command += [f"--program={folder / manifest.name}", *options]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason='no PyTorch: pip install -e ".[peers]"')


@pytest.fixture
def transformers(torch):
    return pytest.importorskip(
        "transformers", reason='no transformers: pip install -e ".[peers]"'
    )


@pytest.mark.parametrize(
    ("peer", "kind", "by"),
    [(pytorch_step, UPDATE, "PyTorch"), (marian_search, SEARCH, "transformers")],
)
def test_a_missing_library_is_a_line(monkeypatch, tmp_path, peer, kind, by) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    save_program(tmp_path / "small", make_manifest(kind), "", {})
    peer.main([f"--program={tmp_path / 'small'}", f"--out={tmp_path / 'out.jsonl'}"])
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {
        "program": "small",
        "by": by,
        "error": "torch is not installed",
    }


@pytest.mark.parametrize("sizes", [{"normalization": "pre"}, {"tie_output": False}])
def test_a_model_that_no_peer_has_is_refused(tmp_path, sizes) -> None:
    save_program(tmp_path, make_manifest(UPDATE, **sizes), "", {})
    ((name, value),) = sizes.items()
    with pytest.raises(SystemExit, match=f"the paper's. Received: .*{name}={value}"):
        arguments.load_program(tmp_path, UPDATE)


def test_a_program_of_another_kind_is_refused(tmp_path) -> None:
    save_program(tmp_path, make_manifest(UPDATE), "", {})
    with pytest.raises(SystemExit, match="must be of kind 'search'"):
        arguments.load_program(tmp_path, SEARCH)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_compiled_and_eager_steps_are_timed(torch, tmp_path, precision) -> None:
    lines = run_peer(
        "pytorch_step",
        make_manifest(UPDATE, precision),
        tmp_path,
        "--runs=4",
        "--only=in chunks",
    )
    names = ["PyTorch compiled, loss in chunks", "PyTorch eager, loss in chunks"]
    assert [line["by"] for line in lines] == names
    for line in lines:
        assert line["program"] == "small"
        assert line["device"] == "cpu"
        assert line["versions"]["torch"] == torch.__version__
        assert 0 < line["best_run_seconds"] <= line["run_seconds"]
        assert line["compile_seconds"] > 0
        assert line["peak_gigabytes"] > 0
        rate = ROWS * TARGET / line["run_seconds"]
        assert line["tokens_per_second"] == pytest.approx(rate)
        # Random weights give about the loss of uniform logits, and a bit more.
        first, last = line["losses"]
        assert np.log(43) < first < np.log(43) + 3
        assert first != last


@pytest.mark.slow
def test_without_time_no_variant_starts(torch, monkeypatch, tmp_path) -> None:
    save_program(tmp_path / "small", make_manifest(UPDATE, "float16"), "", {})
    out = tmp_path / "out.jsonl"
    pytorch_step.main(
        [f"--program={tmp_path / 'small'}", f"--out={out}", "--seconds=0"]
    )
    assert not out.exists()


@pytest.mark.slow
def test_variants_that_were_timed_are_left_out_and_a_failure_is_a_line(
    torch, tmp_path
) -> None:
    save_program(tmp_path / "small", make_manifest(UPDATE, "float16"), "", {})
    out = tmp_path / "out.jsonl"
    names = [f"PyTorch {name}" for name, *_ in pytorch_step.VARIANTS]
    for name in names[:-1]:
        Results(out, program="small", by=name).add(run_seconds=1.0)
    Results(out, program="other", by=names[-1]).add(run_seconds=1.0)
    pytorch_step.main([f"--program={tmp_path / 'small'}", f"--out={out}"])
    *_, last = map(json.loads, out.read_text().splitlines())
    assert len(out.read_text().splitlines()) == len(names) + 1
    assert (last["program"], last["by"]) == ("small", names[-1])
    message = "ValueError: precision must be float32 or bfloat16. Received: float16"
    assert last["error"] == message


@pytest.mark.slow
def test_a_gpu_that_is_asked_for_must_be_there(torch, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    save_program(tmp_path / "small", make_manifest(UPDATE), "", {})
    flags = f"--program={tmp_path / 'small'}", f"--out={tmp_path / 'out.jsonl'}"
    with pytest.raises(SystemExit, match=r"must find the GPU\. Received: torch "):
        pytorch_step.main([*flags, "--platform=gpu"])


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_searches_are_timed(transformers, tmp_path, precision) -> None:
    only = {"float32": "dynamic", "bfloat16": "in place, compiled"}[precision]
    (line,) = run_peer(
        "marian_search",
        make_manifest(SEARCH, precision),
        tmp_path,
        "--runs=3",
        f"--only={only}",
    )
    assert line["by"].startswith("transformers ") and only in line["by"]
    assert line["device"] == "cpu"
    assert line["versions"]["transformers"] == transformers.__version__
    assert 0 < line["best_run_seconds"] <= line["run_seconds"]
    assert line["compile_seconds"] > 0
    assert line["peak_gigabytes"] > 0
    assert line["sentences_per_second"] == pytest.approx(ROWS / line["run_seconds"])
    assert line["tokens_per_second"] == pytest.approx(
        ROWS * TARGET / line["run_seconds"]
    )


@pytest.mark.slow
def test_every_cache_finds_the_same_hypotheses(transformers, torch) -> None:
    manifest = make_manifest(SEARCH)
    model = marian_search.build_model(manifest)
    with torch.no_grad():
        # Weights so large that beams differ and are reordered.
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(20)
    found = {}
    for cache in ("dynamic", "static", "in place"):
        search = marian_search.make_search(model, manifest, cache)
        # The second run has what the first left in the cache.
        found[cache] = [search().tolist() for _ in range(2)]
    first, again = found["dynamic"]
    assert first == again
    assert found["static"] == found["in place"] == [first, again]
    assert len({tuple(row) for row in first}) == ROWS
    greedy = dataclasses.replace(manifest, beam_size=1)
    assert marian_search.make_search(model, greedy, "dynamic")().tolist() != first


@pytest.fixture
def weights() -> weights_np.Weights:
    return weights_np.random_weights(np.random.default_rng(7))


def load_weights(torch, model, weights: weights_np.Weights) -> None:
    """Copies the reference's weights into the peer's model."""

    def copy(parameter, value):
        assert parameter.shape == value.shape
        parameter.copy_(torch.tensor(value))

    def kernel(array):
        """[D, H, K] to the [H K, D] of `nn.Linear`."""
        return array.reshape(len(array), -1).T

    def copy_norm(module, norm):
        copy(module.norm.weight, norm.gain)
        copy(module.norm.bias, norm.bias)

    def copy_output(attention, output):
        copy(attention.output.weight, output.reshape(-1, output.shape[-1]).T)

    with torch.no_grad():
        copy(model.embedding.weight, weights.embedding)
        layers = [*model.encoder, *model.decoder]
        wanted = [*weights.encoder_layers, *weights.decoder_layers]
        for layer, source in zip(layers, wanted, strict=True):
            own = source.self_attention
            kernels = [kernel(each) for each in (own.query, own.key, own.value)]
            copy(layer.self_attention.inputs.weight, np.concatenate(kernels))
            copy_output(layer.self_attention, own.output)
            copy_norm(layer.self_attention_norm, source.self_attention_norm)
            if hasattr(source, "cross_attention"):
                cross = source.cross_attention
                copy(layer.cross_attention.query.weight, kernel(cross.query))
                kernels = [kernel(each) for each in (cross.key, cross.value)]
                copy(layer.cross_attention.memory.weight, np.concatenate(kernels))
                copy_output(layer.cross_attention, cross.output)
                copy_norm(layer.cross_attention_norm, source.cross_attention_norm)
            inner = source.feed_forward
            copy(layer.inner.weight, inner.w1.T)
            copy(layer.inner.bias, inner.b1)
            copy(layer.outer.weight, inner.w2.T)
            copy(layer.outer.bias, inner.b2)
            copy_norm(layer.feed_forward_norm, source.feed_forward_norm)


@pytest.mark.slow
def test_the_model_is_the_papers(torch, weights) -> None:
    from benchmarks.gpu.peers import transformer

    sizes = dataclasses.asdict(weights_np.Sizes())
    sizes["encoder_layers"] = sizes.pop("num_encoder_layers")
    sizes["decoder_layers"] = sizes.pop("num_decoder_layers")
    model = transformer.Transformer({**sizes, "dropout_rate": 0.0}, TARGET)
    load_weights(torch, model, weights)
    rng, size = np.random.default_rng(8), sizes["vocabulary_size"]
    source, target = (
        rng.integers(3, size, (ROWS, length)) for length in (SOURCE, TARGET)
    )
    hidden = model(torch.tensor(source), torch.tensor(target))
    loss = transformer.whole_loss(
        hidden.flatten(0, 1), model.embedding.weight, torch.tensor(target).flatten()
    )
    # PyTorch gives the true token 1/V of the paper's smoothing too.
    smoothing = 0.1 * (size - 1) / size
    costs = [
        transformer_np.label_smoothed_cross_entropy(
            transformer_np.transformer(
                row, transformer_np.shift_right(list(targets)), weights
            ),
            targets,
            smoothing,
        )
        for row, targets in zip(source, target, strict=True)
    ]
    assert loss.item() == pytest.approx(np.mean(costs), rel=1e-6)


@pytest.mark.slow
def test_a_loss_in_chunks_is_the_whole_loss(torch) -> None:
    from benchmarks.gpu.peers import transformer

    torch.manual_seed(3)
    tokens, width, size = 23, 6, 13
    hidden, embeddings = torch.randn(tokens, width), torch.randn(size, width)
    targets = torch.randint(3, size, (tokens,))
    found = []
    for loss, limit in (
        (transformer.whole_loss, ()),
        (transformer.chunked_loss, (5 * size,)),
    ):
        leaves = [each.clone().requires_grad_() for each in (hidden, embeddings)]
        value = loss(*leaves, targets, *limit)
        found.append((value, *torch.autograd.grad(value, leaves)))
    for whole, chunked in zip(*found, strict=True):
        torch.testing.assert_close(chunked, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_dropout_is_the_papers(torch) -> None:
    from benchmarks.gpu.peers import transformer

    model = transformer.Transformer(SIZES, TARGET)
    calls = []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Dropout):
            assert module.p == SIZES["dropout_rate"]
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    ids = torch.full((ROWS, TARGET), 3)
    model(ids[:, :SOURCE], ids)
    # Two sums of embeddings and positions, and each sub-layer's output.
    assert calls.count("dropout") == 2
    assert len(calls) == 2 + 1 * 2 + 2 * 3
