"""Gain from a shortlist: searches of single sentences with all words or some.

    python -m benchmarks.decoding.shortlists

The base model with random weights and 37,000 words makes 25 tokens for each sentence.
The lexicon is random too: the time does not depend on it. Searches with and without a
shortlist take turns, sentence by sentence.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from benchmarks.decoding import measured
from benchmarks.decoding.export_ours import EXTRA
from benchmarks.decoding.write import base_config, build_model
from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.decoding.shortlist import Shortlist
from t2t_keras.decoding.transformer_search import search_translations
from t2t_keras.model.transformer import Transformer
from t2t_keras.typing import Tensor

CANDIDATES = 100


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=48)
    parser.add_argument("--sizes", default="400,1000,37000")
    parser.add_argument("--layers", choices=measured.STACKS, default=measured.STACKS[0])
    args = parser.parse_args()
    model = build_model(base_config(args.layers), measured.VOCABULARY)
    searches = {"whole vocabulary": make_search(model)}
    for size in map(int, args.sizes.split(",")):
        shortlist = Shortlist(*random_lexicon(measured.VOCABULARY), size)
        searches[f"{size:,} words"] = make_search(model, shortlist)
    seconds = measure(searches, args.sentences, args.rounds)
    first, *_ = seconds.values()
    print("| shortlist | tokens/s | ratio of each round | median |")
    print("| --- | --- | --- | --- |")
    for name, each in seconds.items():
        ratios = [a / b for a, b in zip(first, each, strict=True)]
        rate = args.sentences * measured.LENGTH / statistics.median(each)
        rounds = ", ".join(f"{ratio:.3f}" for ratio in ratios)
        print(f"| {name} | {rate:.1f} | {rounds} | {statistics.median(ratios):.3f} |")


def random_lexicon(vocabulary_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns candidates and probabilities of a lexicon, `CANDIDATES` of each word."""
    generator = np.random.default_rng(3)
    shape = [vocabulary_size, CANDIDATES]
    candidates = generator.integers(3, vocabulary_size, shape)
    probabilities = generator.random(shape) / CANDIDATES
    candidates[0], probabilities[0] = 0, 0.0  # padding
    return candidates, probabilities


def make_search(
    model: Transformer, shortlist: Shortlist | None = None
) -> Callable[[Tensor], BeamSearchResult]:
    """Returns a search for sources of any length, traced once."""
    settings = BeamSearchSettings(measured.BEAM, measured.ALPHA, n_best=1)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([1, None], tf.int32)])
    def search(source: Tensor) -> BeamSearchResult:
        return search_translations(
            model,
            source,
            settings,
            EXTRA,
            shortlist=shortlist,
            max_length=measured.LENGTH,
        )

    return search


def measure(
    searches: dict[str, Callable[[Tensor], BeamSearchResult]], count: int, rounds: int
) -> dict[str, list[float]]:
    """Returns the seconds of each round for all sentences, by the search's name."""
    sources = [
        tf.constant([[*sentence, measured.EOS]], tf.int32)
        for sentence in measured.sentences(count)
    ]
    seconds = {name: [0.0] * rounds for name in searches}
    for search in searches.values():
        for source in sources[:3]:
            (length,) = search(source).lengths[:, 0].numpy()
            if length != measured.LENGTH:
                raise RuntimeError(
                    f"An output must have {measured.LENGTH} tokens. Received: {length}"
                )
    for number in range(rounds):
        for source in sources:
            for name, search in searches.items():
                start = time.perf_counter()
                search(source)
                seconds[name][number] += time.perf_counter() - start
    return seconds


if __name__ == "__main__":
    main()
