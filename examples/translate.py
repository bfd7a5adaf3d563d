"""Translates lines with an exported model: needs TensorFlow and TensorFlow Text alone.

    python examples/translate.py runs/tiny/export/1 < source.txt > scored.txt

Each line of standard input gives one line: the score, a tab, the translation.
"""

import itertools
import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the tokenizer's ops

BATCH_SIZE = 32


def main() -> None:
    """Translates standard input."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} MODEL_VERSION_DIRECTORY")
    # What holds the weights must live as long as its functions are called.
    model = tf.saved_model.load(sys.argv[1])
    translate = model.signatures["serving_default"]
    lines = (line.removesuffix(b"\n") for line in sys.stdin.buffer)
    while batch := list(itertools.islice(lines, BATCH_SIZE)):
        found = translate(text=tf.constant(batch))
        for score, text in zip(
            found["score"].numpy(), found["translation"].numpy(), strict=True
        ):
            sys.stdout.buffer.write(b"%.6f\t%s\n" % (score, text))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
