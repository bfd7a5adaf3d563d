"""Client program that loads an export without importing this project.

Reads a JSON list of batches from standard input, texts as hexadecimal UTF-8. Writes
the answers of the export, loaded by TensorFlow 2's loader and by a session of
TensorFlow 1, which is what servers use.
"""

import json
import sys


class Hidden:
    """Import finder that fails every import of this project."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "t2t_keras":
            raise ModuleNotFoundError(f"{name} is hidden", name=name)


def answer_by_object_loader(tf, directory, batches):
    """Yields the answers of the restored object's signatures."""
    loaded = tf.saved_model.load(directory)
    serve = loaded.signatures["serving_default"]
    for batch in batches:
        outputs = serve(text=tf.constant(batch, tf.string, [len(batch)]))
        yield {name: value.numpy().tolist() for name, value in outputs.items()}


def answer_by_session(tf, directory, batches):
    """Yields the answers of a session that, like a server, feeds and fetches names."""
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session(graph=graph) as session:
        meta = tf.compat.v1.saved_model.loader.load(session, ["serve"], directory)
        contract = meta.signature_def["serving_default"]
        outputs = {key: info.name for key, info in contract.outputs.items()}
        for batch in batches:
            values = session.run(outputs, {contract.inputs["text"].name: batch})
            yield {name: value.tolist() for name, value in values.items()}


def answer_ids(tf, directory, ids):
    """Returns the answer of the signature that takes token ids."""
    loaded = tf.saved_model.load(directory)
    outputs = loaded.signatures["translate_ids"](input_ids=tf.constant(ids, tf.int32))
    return {name: value.numpy().tolist() for name, value in outputs.items()}


def encode_texts(answers):
    """Returns answers with bytes as hexadecimal, for JSON."""
    return [
        {**answer, "translation": [text.hex() for text in answer["translation"]]}
        for answer in answers
    ]


def main():
    """Answers the batches from standard input."""
    sys.meta_path.insert(0, Hidden())
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers its ops

    directory, asked = sys.argv[1], json.load(sys.stdin)
    batches = [[bytes.fromhex(text) for text in batch] for batch in asked["batches"]]
    answers = {
        "objects": encode_texts(answer_by_object_loader(tf, directory, batches)),
        "session": encode_texts(answer_by_session(tf, directory, batches)),
        "ids": answer_ids(tf, directory, asked["ids"]),
        "modules": sorted(sys.modules),
    }
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
