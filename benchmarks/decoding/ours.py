"""Beam search of the exported model, called in a session as a server calls it.

python -m benchmarks.decoding.ours --batch=1,8,32,64
"""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

import tensorflow as tf

from benchmarks.decoding import measured
from t2t_keras.serving import signature


def main() -> None:
    """Exports in another process, then times the session in this one."""
    args = measured.arguments(
        description=__doc__,
        precision=["float32", "bfloat16", "int8"],
        xla=["off", "on"],
        layers=[*measured.STACKS],
    )
    with tempfile.TemporaryDirectory() as folder:
        module = "benchmarks.decoding.export_ours"
        settings = [f"--precision={args.precision}", f"--xla={args.xla}"]
        settings += [f"--layers={args.layers}"]
        settings += ["--real_lengths"] if args.real_lengths else []
        command = [sys.executable, "-m", module, f"--to={folder}", *settings]
        subprocess.run(command, check=True)
        # Code that XLA compiles for CPUs runs on the intra-operation threads.
        threads = args.threads if args.xla == "on" else args.threads // args.at_once
        with open_translator(folder, threads, args.at_once) as translate:
            measured.measure(translate, args)


@contextlib.contextmanager
def open_translator(
    folder: str, threads: int, at_once: int
) -> Iterator[Callable[[measured.Sentences], measured.Sentences]]:
    """Yields a function that translates a batch with a SavedModel in a session.

    Args:
        folder: Folder of the SavedModel.
        threads: Threads per operation.
        at_once: Operations that run at the same time.
    """
    options = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=at_once
    )
    graph = tf.Graph()
    with tf.compat.v1.Session(graph=graph, config=options) as session:
        loaded = tf.compat.v1.saved_model.loader.load(session, ["serve"], folder)
        contract = loaded.signature_def[signature.TRANSLATE_IDS]
        outputs = (signature.OUTPUT_IDS, signature.OUTPUT_LENGTH)
        call = session.make_callable(
            [contract.outputs[name].name for name in outputs],
            [contract.inputs[signature.INPUT_IDS].name],
        )

        def translate(batch: measured.Sentences) -> measured.Sentences:
            ids, lengths = call(measured.pad_batch(batch))
            pairs = zip(ids, lengths, strict=True)
            return [row[:length].tolist() for row, length in pairs]

        yield translate


if __name__ == "__main__":
    main()
