"""Beam search of Hugging Face transformers: MarianMT's `generate`, random weights.

    python -m benchmarks.gpu.peers.marian_search --program=DIR/NAME --out=FILE.jsonl

It does the work of a search program: every output has the program's length. Sources
are full rows of random ids, and tokens are those of the best hypotheses. MarianMT also
has biases in attention, which cost little.

`generate` compiles nothing in a beam search, so the variants with other caches compile
the decoder's step themselves. It reorders a cache into new memory in each step, which
CUDA graphs cannot follow, so two variants pass a cache that is reordered in place.
"""

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.gpu.manifest import SEARCH, Manifest
from benchmarks.gpu.peers import arguments, timing
from benchmarks.gpu.results import Results

# Names of variants, their caches and PyTorch's names of modes. The first needs no
# compiler.
VARIANTS = (
    ("dynamic cache", "dynamic", None),
    ("cache in place, CUDA graphs", "in place", "reduce-overhead"),
    ("cache in place, compiled", "in place", "default"),
    ("static cache, compiled", "static", "default"),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Times the search of one program."""
    args = arguments.parse(__doc__ or "", 5, argv)
    manifest = arguments.load_program(args.program, SEARCH)
    results = Results(args.out, program=manifest.name, by="transformers")
    if arguments.is_missing(results, "torch", "transformers"):
        return
    import torch
    import transformers

    versions = {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "transformers": transformers.__version__,
    }
    timing.time_variants(make_variants(manifest), args, manifest, versions)


def make_variants(manifest: Manifest) -> Iterator[timing.Variant]:
    """Yields the variants' names and functions that build them."""

    def build(cache: str, mode: str | None) -> Callable:
        model = build_model(manifest)
        if mode is not None:
            model.compile(mode=mode)
        return make_search(model, manifest, cache)

    for name, cache, mode in VARIANTS:
        yield f"transformers {name}", functools.partial(build, cache, mode)


def make_search(model, manifest: Manifest, cache: str) -> Callable:
    """Returns a function that searches a batch and returns the best hypotheses [B, T].

    Args:
        model: MarianMT model.
        manifest: Description of the program.
        cache: "dynamic", "static" or "in place".
    """
    import torch

    shape = manifest.rows, manifest.source_length
    ids = np.random.default_rng(0).integers(3, model.config.vocab_size, shape)
    source = torch.tensor(ids, device=model.device)
    options = {
        "attention_mask": torch.ones_like(source),
        "num_beams": manifest.beam_size,
        "length_penalty": 0.6,
        "min_new_tokens": manifest.target_length,
        "max_new_tokens": manifest.target_length,
        "do_sample": False,
    }
    if cache == "static":
        options["cache_implementation"] = "static"
    elif cache == "in place":
        with torch.inference_mode():
            options["past_key_values"] = build_cache(model, manifest)

    @torch.inference_mode()
    def search():
        if "past_key_values" in options:
            options["past_key_values"].reset()
        with warnings.catch_warnings():
            # Later versions call `past_key_values` otherwise, and take this name too.
            warnings.simplefilter("ignore", FutureWarning)
            hypotheses = model.generate(source, **options)[:, 1:]
        if hypotheses.shape != (manifest.rows, manifest.target_length):
            raise RuntimeError(f"Hypotheses have shape {tuple(hypotheses.shape)}.")
        return hypotheses

    return search


def build_model(manifest: Manifest):
    """Returns a MarianMT model of the same sizes with random weights, on the device.

    Raises:
        ValueError: If the heads are not as wide as MarianMT's.
    """
    import torch
    from transformers import MarianConfig, MarianMTModel

    sizes = manifest.sizes
    width, heads = sizes["d_model"], sizes["num_heads"]
    if (sizes["d_k"] * heads, sizes["d_v"] * heads) != (width, width):
        raise ValueError(f"d_k and d_v must be d_model / num_heads. Received: {sizes}")
    config = MarianConfig(
        vocab_size=sizes["vocabulary_size"],
        d_model=width,
        encoder_layers=sizes["encoder_layers"],
        decoder_layers=sizes["decoder_layers"],
        encoder_ffn_dim=sizes["d_ff"],
        decoder_ffn_dim=sizes["d_ff"],
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=1 + max(manifest.source_length, manifest.target_length),
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
        forced_eos_token_id=None,
        decoder_start_token_id=0,
        attn_implementation="sdpa",
    )
    torch.manual_seed(0)
    model = MarianMTModel(config)
    dtype = getattr(torch, manifest.precision)
    return model.to(timing.prepare_device(), dtype).eval()


def build_cache(model, manifest: Manifest):
    """Returns a cache of the decoder whose tensors stay where they are.

    Attention to the source is not reordered: it is the same for all beams of a row.
    """
    from transformers import EncoderDecoderCache, StaticCache

    class CacheInPlace(EncoderDecoderCache):
        def reorder_cache(self, beam_idx):
            for layer in self.self_attention_cache.layers:
                layer.keys.copy_(layer.keys.index_select(0, beam_idx))
                layer.values.copy_(layer.values.index_select(0, beam_idx))

    config = model.config
    heads = config.decoder_attention_heads
    caches = []
    for length in (manifest.target_length, manifest.source_length):
        cache = StaticCache(config=config, max_cache_len=length)
        cache.early_initialization(
            batch_size=manifest.rows * manifest.beam_size,
            num_heads=heads,
            head_dim=config.d_model // heads,
            dtype=model.dtype,
            device=model.device,
        )
        caches.append(cache)
    return CacheInPlace(*caches)


if __name__ == "__main__":
    main()
