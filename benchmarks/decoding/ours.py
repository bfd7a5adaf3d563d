"""The exported model's search, called as a server calls it: through a session.

python -m benchmarks.decoding.ours --batch=1,8,32,64
"""

import os
import subprocess
import sys
import tempfile

import tensorflow as tf

from benchmarks.decoding import measured
from t2t_keras import signature


def main() -> None:
    """Exports in a process of its own, then times the session in this one."""
    given = measured.arguments(
        description=__doc__, precision=["float32", "bfloat16"], xla=["off", "on"]
    )
    with tempfile.TemporaryDirectory() as folder:
        module = "benchmarks.decoding.export_ours"
        settings = [f"--precision={given.precision}", f"--xla={given.xla}"]
        command = [sys.executable, "-m", module, f"--to={folder}", *settings]
        command += ["--real_lengths"] if given.real_lengths else []
        subprocess.run(command, check=True, env=os.environ)
        graph = tf.Graph()
        options = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=given.threads // given.at_once,
            inter_op_parallelism_threads=given.at_once,
        )
        with tf.compat.v1.Session(graph=graph, config=options) as session:
            meta_graph = tf.compat.v1.saved_model.loader.load(
                session, ["serve"], folder
            )
            contract = meta_graph.signature_def[signature.TRANSLATE_IDS]
            call = session.make_callable(
                [
                    contract.outputs[name].name
                    for name in (signature.OUTPUT_IDS, signature.OUTPUT_LENGTH)
                ],
                [contract.inputs[signature.INPUT_IDS].name],
            )

            def translate(batch: measured.Sentences) -> measured.Sentences:
                longest = measured.LONGEST if given.xla == "on" else None
                ids, lengths = call(measured.padded(batch, longest))
                pairs = zip(ids, lengths, strict=True)
                return [row[:length].tolist() for row, length in pairs]

            measured.measure(translate, given)


if __name__ == "__main__":
    main()
