"""A program of somebody else: it loads an export and has never seen this project.

Reads a JSON list of batches from standard input, texts as hexadecimal UTF-8, and
writes what the export made of them, by TensorFlow 2's loader and by a session of
TensorFlow 1, which is what servers use.
"""

import json
import sys


class Hidden:
    """Fails every import of this project, wherever it may be installed."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "t2t_keras":
            raise ModuleNotFoundError(f"{name} is hidden", name=name)


def by_object_loader(tf, directory, batches):
    """Calls the signatures of a restored object."""
    loaded = tf.saved_model.load(directory)
    serve = loaded.signatures["serving_default"]
    for batch in batches:
        found = serve(text=tf.constant(batch, tf.string, [len(batch)]))
        yield {name: value.numpy().tolist() for name, value in found.items()}


def by_session(tf, directory, batches):
    """Runs the graph as a server would, from names in the signature."""
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session(graph=graph) as session:
        meta = tf.compat.v1.saved_model.loader.load(session, ["serve"], directory)
        contract = meta.signature_def["serving_default"]
        outputs = {key: info.name for key, info in contract.outputs.items()}
        for batch in batches:
            found = session.run(outputs, {contract.inputs["text"].name: batch})
            yield {name: value.tolist() for name, value in found.items()}


def by_ids(tf, directory, ids):
    """Calls the signature of those who tokenize themselves."""
    loaded = tf.saved_model.load(directory)
    found = loaded.signatures["translate_ids"](input_ids=tf.constant(ids, tf.int32))
    return {name: value.numpy().tolist() for name, value in found.items()}


def readable(answers):
    """Returns answers with bytes as hexadecimal, for JSON."""
    return [
        {**answer, "translation": [text.hex() for text in answer["translation"]]}
        for answer in answers
    ]


def main():
    """Answers what is asked."""
    sys.meta_path.insert(0, Hidden())
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - registers its ops

    directory, asked = sys.argv[1], json.load(sys.stdin)
    batches = [[bytes.fromhex(text) for text in batch] for batch in asked["batches"]]
    answers = {
        "objects": readable(by_object_loader(tf, directory, batches)),
        "session": readable(by_session(tf, directory, batches)),
        "ids": by_ids(tf, directory, asked["ids"]),
        "modules": sorted(sys.modules),
    }
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
