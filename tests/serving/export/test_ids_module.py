"""Export of token ids and its detokenizer, which work without TensorFlow Text."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.serving.export.ids_module import IdsModule
from t2t_keras.serving.export.requests import Request
from t2t_keras.serving.export.saved_model import save_version
from t2t_keras.serving.export.validation import check_graph
from tests.serving.toy_model import LIMITS, SETTINGS, toy_model

IDS = np.array([[5, 9, 1, 0], [7, 1, 0, 0], [0, 0, 0, 0], [-1, 266, 265, 1]], np.int32)


def test_the_translators_signature_of_ids(served):
    found = served.ask(Request("translate_ids", {"input_ids": IDS}))
    assert set(found) == {"output_ids", "output_length", "score", "truncated"}
    known = np.where((IDS < 0) | (IDS >= 266), 2, IDS)
    np.testing.assert_array_equal(found["output_ids"], known)
    np.testing.assert_array_equal(found["output_length"], [3, 2, 0, 4])
    np.testing.assert_array_equal(found["score"], known.sum(axis=1))
    assert found["truncated"].tolist() == [False] * 4


def test_no_rows_and_empty_rows(served):
    for shape in [(0, 0), (0, 3), (2, 0)]:
        ids = np.zeros(shape, np.int32)
        found = served.ask(Request("translate_ids", {"input_ids": ids}))
        assert {len(value) for value in found.values()} == {shape[0]}, shape
        assert not found["output_length"].any(), shape


def test_a_row_of_a_hundred_thousand_ids_is_cut(served):
    ids = np.full([2, 100_000], 7, np.int32)
    ids[1, 2:] = [1] + [0] * 99_997
    found = served.ask(Request("translate_ids", {"input_ids": ids}))
    assert found["truncated"].tolist() == [True, False]
    assert found["output_ids"].shape == (2, LIMITS.source_length)
    assert found["output_ids"][0].tolist() == [7] * 11 + [1]


READER = """
import json, sys

class NoText:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow_text", "t2t_keras"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoText())
import tensorflow as tf

ids = tf.constant(json.loads(sys.argv[2]), tf.int32)
loaded = tf.saved_model.load(sys.argv[1])
answers = []
for name in ("serving_default", "translate_ids"):
    found = loaded.signatures[name](input_ids=ids)
    text = loaded.signatures["detokenize"](output_ids=found["output_ids"])
    ids_and_score = [found[n].numpy().tolist() for n in ("output_ids", "score")]
    answers.append([*ids_and_score, [t.decode() for t in text["translation"].numpy()]])
graph = tf.Graph()
with graph.as_default(), tf.compat.v1.Session(graph=graph) as session:
    meta = tf.compat.v1.saved_model.loader.load(session, ["serve"], sys.argv[1])
    contract = meta.signature_def["detokenize"]
    texts = session.run(contract.outputs["translation"].name,
                        {contract.inputs["output_ids"].name: answers[0][0]})
assert [t.decode() for t in texts] == answers[0][2]
assert not [name for name in sys.modules if "tensorflow_text" in name]
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def ids_version(weight, vocabulary, tmp_path_factory):
    module = IdsModule(toy_model(weight), vocabulary, SETTINGS, LIMITS)
    return save_version(module, tmp_path_factory.mktemp("ids"))


@pytest.fixture(scope="module")
def rows(vocabulary):
    """Ids of texts; the last row has incomplete UTF-8 twice."""
    texts = ("ab ba", "🙂", "", "a\x00b")
    broken = [3 + 0xF0, 3 + 0x9F, 260, 3 + 0x99, 1]
    return [*(vocabulary.encode(text) for text in texts), broken]


def test_an_export_of_ids_returns_ids_and_their_text(ids_version, rows, vocabulary):
    check_graph(ids_version, tokenizes=False, xla=False)
    ids = tf.ragged.constant(rows, dtype=tf.int32).to_tensor()
    loaded = tf.saved_model.load(str(ids_version)).signatures
    assert set(loaded) == {"serving_default", "translate_ids", "detokenize"}
    found = loaded["serving_default"](input_ids=ids)
    assert found["output_ids"].numpy().tolist() == ids.numpy().tolist()
    assert found["score"].numpy().tolist() == [sum(row) for row in rows]
    texts = loaded["detokenize"](output_ids=ids)["translation"].numpy()
    assert [text.decode() for text in texts] == [vocabulary.decode(r) for r in rows]


@pytest.mark.slow
def test_it_loads_in_a_process_that_cannot_import_tensorflow_text(
    ids_version, rows, vocabulary
):
    width = max(map(len, rows))
    padded = [row + [0] * (width - len(row)) for row in rows]
    done = subprocess.run(
        [sys.executable, "-c", READER, str(ids_version), json.dumps(padded)],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    default, by_name = json.loads(done.stdout)
    assert default == by_name
    assert default[0] == padded
    assert default[1] == [sum(row) for row in rows]
    assert default[2] == [vocabulary.decode(row) for row in rows]
    assert default[2][4].count("\ufffd") == 3
