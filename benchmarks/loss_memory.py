"""Peak memory of the loss over a large vocabulary: in chunks, and all at once.

    python -m benchmarks.loss_memory

Starts a process for each way, and one that does nothing but import, whose memory is
taken off. Forward and gradient, by hidden states and embeddings, compiled by XLA.
"""

import argparse
import resource
import subprocess
import sys
import time

VOCABULARY, WIDTH = 37_000, 512
WAYS = ("nothing", "chunks", "at_once")


def main() -> None:
    """Measures all ways, or one of them in this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--way", choices=WAYS)
    given = parser.parse_args()
    if given.way:
        seconds = measured_seconds(given.way, given.tokens)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, seconds)
        return
    logits = 4 * given.tokens * VOCABULARY
    print(
        f"{given.tokens:,} tokens, {VOCABULARY:,} words, logits {logits / 1e9:.2f} GB"
    )
    base = 0
    for way in WAYS:
        command = [sys.executable, "-m", "benchmarks.loss_memory", f"--way={way}"]
        done = subprocess.run(
            [*command, f"--tokens={given.tokens}"],
            capture_output=True,
            text=True,
            check=True,
        )
        peak, seconds = map(float, done.stdout.split()[-2:])
        base = base or peak
        print(f"{way}: {(peak - base) / 1e9:.2f} GB, {seconds:.2f} s", flush=True)


def measured_seconds(way: str, tokens: int) -> float:
    """Computes the loss and its gradient twice; returns seconds of the second time."""
    import tensorflow as tf

    from t2t_keras.training.losses import label_smoothed_cross_entropy

    def at_once(hidden, embeddings, targets, weights):
        logits = tf.matmul(hidden, embeddings, transpose_b=True)
        normalizer = tf.reduce_logsumexp(logits, axis=-1)
        log_loss = normalizer - tf.gather(logits, targets, batch_dims=1)
        smoothed = 0.9 * log_loss + 0.1 * (normalizer - tf.reduce_mean(logits, -1))
        return tf.reduce_sum(smoothed * weights)

    def chunks(hidden, embeddings, targets, weights):
        return label_smoothed_cross_entropy(
            hidden, embeddings, targets, weights, label_smoothing=0.1
        ).loss_sum

    if way == "nothing":
        return 0.0
    loss = {"chunks": chunks, "at_once": at_once}[way]

    @tf.function(jit_compile=True)
    def step(hidden, embeddings, targets, weights):
        with tf.GradientTape() as tape:
            tape.watch([hidden, embeddings])
            loss_sum = loss(hidden, embeddings, targets, weights)
        return loss_sum, tape.gradient(loss_sum, [hidden, embeddings])

    inputs = (
        tf.random.normal([tokens, WIDTH]),
        tf.random.normal([VOCABULARY, WIDTH], stddev=WIDTH**-0.5),
        tf.random.uniform([tokens], 3, VOCABULARY, tf.int32),
        tf.ones([tokens]),
    )
    float(step(*inputs)[0])
    start = time.perf_counter()
    float(step(*inputs)[0])
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
