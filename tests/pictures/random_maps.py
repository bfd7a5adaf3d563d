"""Random attention maps of a sentence; all sizes differ."""

import numpy as np

from t2t_keras.model.sentence_maps import SentenceMaps, sentence_maps

R, H = 2, 3
SOURCE = ("▁The", "▁app", "les", "▁fell", ".", "</s>")
TARGET = ("▁Die", "▁", "<0xC3>", "<0x84>", "pfel", "▁fielen", ".", "</s>")

# Tokens that could break pages, pictures and tables.
HOSTILE = (
    '▁"quoted"',
    "▁<script>alert(1)</script>",
    "▁</script>",
    "▁$x^2$",
    "▁%s",
    "▁&lt;",
    "▁שלום",
    "▁مرحبا",
    "▁e\u0301\u0308",
    "▁日本語",
    "▁\u202eevil",
    "▁|",
    "▁`",
    "▁\\n",
    "▁😀",
    "▁",
    "<0xF0>",
    "<0x9F>",
    "<0x98>",
    "<0x80>",
    "▁" + "Dampfschiff" * 9,
    "▁<!--",
    "-->",
    "</s>",
)


def softmax(rng: np.random.Generator, *shape: int, causal: bool = False) -> np.ndarray:
    """Returns [..., Q, C] float32 weights; a causal query sees no later key."""
    scores = rng.normal(scale=2.5, size=shape)
    if causal:
        scores = np.where(np.tri(*shape[-2:], dtype=bool), scores, -np.inf)
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    return (exponents / exponents.sum(-1, keepdims=True)).astype("float32")


def random_maps(
    source: tuple[str, ...] = SOURCE,
    target: tuple[str, ...] = TARGET,
    seed: int = 5,
    layers: int = R,
    heads: int = H,
) -> SentenceMaps:
    rng = np.random.default_rng(seed)
    s, t = len(source), len(target)
    weights = (
        softmax(rng, layers, heads, s, s),
        softmax(rng, layers, heads, t, t, causal=True),
        softmax(rng, layers, heads, t, s),
    )
    return sentence_maps(source, target, weights)
