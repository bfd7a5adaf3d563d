"""Training step of the same Transformer in PyTorch, compiled, with fused Adam.

    python -m benchmarks.gpu.peers.pytorch_step --program=DIR/NAME --out=FILE.jsonl

It does the work of an update program in the way that suits PyTorch best: in bfloat16
under autocast, or in float32 with TensorFloat-32. It does less than the program where
the batch allows it: random rows are full, so there are no padding masks, and a row of
several sentence pairs is one long pair here. It does not compute the norm of gradients,
which the program reports. Steps are not waited for, and tokens are target tokens.
"""

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.gpu.manifest import UPDATE, Manifest
from benchmarks.gpu.peers import arguments, timing
from benchmarks.gpu.results import Results

WARMUP_STEPS = 4000
# Names of variants, with PyTorch's names of modes. The most promising first; autotuning
# takes minutes.
VARIANTS = (
    ("compiled, whole loss", "default", "whole_loss"),
    ("compiled, loss in chunks", "default", "chunked_loss"),
    ("compiled with CUDA graphs, whole loss", "reduce-overhead", "whole_loss"),
    ("autotuned, whole loss", "max-autotune-no-cudagraphs", "whole_loss"),
    ("eager, whole loss", None, "whole_loss"),
    ("eager, loss in chunks", None, "chunked_loss"),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Times the step of one program."""
    args = arguments.parse(__doc__ or "", 20, argv)
    manifest = arguments.load_program(args.program, UPDATE)
    results = Results(args.out, program=manifest.name, by="PyTorch")
    if arguments.is_missing(results, "torch"):
        return
    import torch

    timing.time_variants(
        make_variants(manifest),
        args,
        manifest,
        {"torch": str(torch.__version__), "cuda": torch.version.cuda},
        lambda first, last: {"losses": [float(first), float(last)]},
    )


def make_variants(manifest: Manifest) -> Iterator[timing.Variant]:
    """Yields the variants' names and functions that build them."""
    for name, mode, loss in VARIANTS:
        yield f"PyTorch {name}", functools.partial(make_step, manifest, mode, loss)


def make_step(manifest: Manifest, mode: str | None, loss: str) -> Callable:
    """Returns a function that makes a training step and returns its loss, on device.

    Args:
        manifest: Description of the program.
        mode: Mode of `torch.compile`; None for eager.
        loss: Name of a loss of `transformer`.

    Raises:
        ValueError: If the precision is not float32 or bfloat16.
    """
    import torch

    from benchmarks.gpu.peers import transformer

    if manifest.precision not in ("float32", "bfloat16"):
        raise ValueError(
            f"precision must be float32 or bfloat16. Received: {manifest.precision}"
        )
    device = timing.prepare_device()
    torch.manual_seed(0)
    width, longest = manifest.sizes["d_model"], max(get_lengths(manifest))
    model = transformer.Transformer(manifest.sizes, longest).to(device).train()
    adam = torch.optim.Adam(
        model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    source, target = (torch.tensor(ids, device=device) for ids in draw_batch(manifest))
    mean_loss = getattr(transformer, loss)

    def compute_loss(source, target):
        hidden = model(source, target).flatten(0, 1)
        return mean_loss(hidden, model.embedding.weight, target.flatten())

    if mode is not None:
        compute_loss = torch.compile(
            compute_loss, mode=mode, dynamic=False, fullgraph=True
        )
    steps = 0

    def step():
        nonlocal steps
        steps += 1
        rate = width**-0.5 * min(steps**-0.5, steps * WARMUP_STEPS**-1.5)
        for group in adam.param_groups:
            group["lr"] = rate
        # Before the forward pass, which may overwrite the memory of CUDA graphs.
        adam.zero_grad(set_to_none=True)
        if device.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        is_bfloat16 = manifest.precision == "bfloat16"
        with torch.autocast(device.type, torch.bfloat16, enabled=is_bfloat16):
            value = compute_loss(source, target)
        value.backward()
        adam.step()
        return value.detach().clone()

    return step


def get_lengths(manifest: Manifest) -> tuple[int, int]:
    """Returns the lengths of source and target."""
    return manifest.source_length, manifest.target_length


def draw_batch(manifest: Manifest) -> list[np.ndarray]:
    """Returns random ids of source and target, all of them words."""
    random, size = np.random.default_rng(0), manifest.sizes["vocabulary_size"]
    return [
        random.integers(3, size, (manifest.rows, length))
        for length in get_lengths(manifest)
    ]


if __name__ == "__main__":
    main()
