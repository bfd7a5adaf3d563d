"""An export says what the translator says, to a process that knows neither."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from t2t_keras import experiment
from t2t_keras.checkpoints import steps_in
from t2t_keras.decoding.settings import BeamSearchSettings
from tests.system.conftest import REPOSITORY, python
from tests.system.hostile_lines import BLANK, LINES, LONG
from tests.system.in_process import run_program

# What a stock server links of TensorFlow Text. All else must be TensorFlow's own.
SENTENCEPIECE_OPS = frozenset(
    {"SentencepieceOp", "SentencepieceTokenizeOp", "SentencepieceDetokenizeOp"}
)


def batches_of(held_out):
    """Returns batches of 0, 1, 2 and 33 texts, hostile ones among them."""
    letters = [source.encode() for source, _ in held_out[:50]]
    mixed = [*LINES, *letters[: 33 - len(LINES)]]
    return [[], letters[:1], [b""], [LONG.encode(), letters[7]], mixed, mixed[::-1]]


@pytest.fixture(scope="module")
def ids(trained, reverse_run):
    """Sources of unlike lengths, padded, one of them a row of padding alone."""
    rows = [trained.vocabulary.encode(s) for s, _ in reverse_run.held_out[:6]] + [[]]
    width = max(map(len, rows)) + 2
    return [[*row, *[0] * (width - len(row))] for row in rows]


@pytest.fixture(scope="module")
def answers(reverse_run, ids):
    """What somebody else's program is told by the export of the run."""
    batches = batches_of(reverse_run.held_out)
    asked = {"batches": [[text.hex() for text in b] for b in batches], "ids": ids}
    done = python(
        str(REPOSITORY / "tests/system/client.py"),
        str(reverse_run.model_dir.export / "1"),
        stdin=json.dumps(asked).encode(),
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_the_client_has_never_seen_this_project(answers):
    assert "t2t_keras" not in answers["modules"]
    assert {"tensorflow", "tensorflow_text"} <= set(answers["modules"])


@pytest.mark.parametrize("loader", ["objects", "session"])
def test_the_export_translates_as_the_translator_does(
    answers, reverse_run, translator_of, loader
):
    batches = batches_of(reverse_run.held_out)
    assert [len(batch) for batch in batches] == [0, 1, 1, 2, 33, 33]
    for batch, answer in zip(batches, answers[loader], strict=True):
        expected = translator_of(4).translate(batch)
        texts = [bytes.fromhex(text).decode() for text in answer["translation"]]
        assert texts == [line.text for line in expected]
        scores = [line.hypotheses[0].score for line in expected]
        np.testing.assert_allclose(answer["score"], scores, rtol=1e-5, atol=1e-5)


def test_blank_stays_empty_and_nothing_else_does(answers):
    mixed = answers["session"][4]
    for index in BLANK:
        assert (mixed["translation"][index], mixed["score"][index]) == ("", 0.0)
    assert bytes.fromhex(mixed["translation"][0]) == b"d c b a"
    assert sum(score == 0.0 for score in mixed["score"]) == len(BLANK)
    assert answers["session"][0] == {"translation": [], "score": []}


def test_the_second_signature_is_the_search(answers, trained, ids):
    found = experiment.search_translations(
        trained.model,
        tf.constant(ids, tf.int32),
        BeamSearchSettings(beam_size=4, alpha=0.6, n_best=1),
        extra_length=5,
    )
    assert answers["ids"]["output_ids"] == found.tokens[:, 0].numpy().tolist()
    assert answers["ids"]["output_length"] == found.lengths[:, 0].numpy().tolist()
    np.testing.assert_allclose(answers["ids"]["score"], found.scores[:, 0], atol=1e-5)


@functools.cache
def meta_graph(directory):
    proto = saved_model_pb2.SavedModel()
    proto.ParseFromString((directory / "saved_model.pb").read_bytes())
    (graph,) = proto.meta_graphs
    return graph


def described(infos):
    """Returns (name, dtype, shape) of a signature's tensors."""
    return {
        (
            name,
            tf.dtypes.as_dtype(info.dtype).name,
            tuple(dim.size for dim in info.tensor_shape.dim),
        )
        for name, info in infos.items()
    }


def test_the_signatures_are_those_that_servers_rely_on(reverse_run):
    """Changing one of these lines breaks every client there is."""
    graph = meta_graph(reverse_run.model_dir.export / "1")
    found = {
        name: (described(signature.inputs), described(signature.outputs))
        for name, signature in graph.signature_def.items()
        if name != "__saved_model_init_op"
    }
    assert found == {
        "serving_default": (
            {("text", "string", (-1,))},
            {("translation", "string", (-1,)), ("score", "float32", (-1,))},
        ),
        "translate_ids": (
            {("input_ids", "int32", (-1, -1))},
            {
                ("output_ids", "int32", (-1, -1)),
                ("output_length", "int32", (-1,)),
                ("score", "float32", (-1,)),
            },
        ),
    }


def test_every_op_is_one_that_a_stock_server_has(reverse_run):
    """Core ops are those that a process knows which imports nothing but TensorFlow."""
    graph = meta_graph(reverse_run.model_dir.export / "1")
    used = {op.name for op in graph.meta_info_def.stripped_op_list.op}
    done = python(
        "-c",
        "import sys, tensorflow as tf\n"
        "from tensorflow.python.framework import op_def_registry\n"
        "for name in sys.stdin.read().split():\n"
        "    if op_def_registry.get(name) is None: print(name)",
        stdin=" ".join(used).encode(),
    )
    assert done.returncode == 0, done.stderr.decode()
    foreign = set(done.stdout.decode().split())
    assert foreign == SENTENCEPIECE_OPS
    assert not {"PyFunc", "EagerPyFunc", "PyFuncStateless"} & used


def compiled_by_xla(graph):
    """Returns the functions and nodes that ask for XLA, which stock servers refuse."""
    library = graph.graph_def.library.function
    nodes = [*graph.graph_def.node, *(n for f in library for n in f.node_def)]
    named = [(f.signature.name, f.attr) for f in library]
    named += [(node.name, node.attr) for node in nodes]
    return [name for name, attr in named if attr["_XlaMustCompile"].b]


def test_nothing_is_compiled_by_xla(reverse_run, tmp_path):
    graph = meta_graph(reverse_run.model_dir.export / "1")
    assert len(graph.graph_def.library.function) > 5
    assert compiled_by_xla(graph) == []
    # The scan sees one that is.
    module = tf.Module()
    inner = tf.function(lambda x: x * 2.0, jit_compile=True)
    module.call = tf.function(
        lambda x: inner(x), input_signature=[tf.TensorSpec([None])]
    )
    tf.saved_model.save(module, str(tmp_path / "planted"))
    assert compiled_by_xla(meta_graph(tmp_path / "planted")) != []


def test_weights_are_saved_once_and_no_keras_object_at_all(reverse_run, trained):
    directory = reverse_run.model_dir.export / "1"
    reader = tf.train.load_checkpoint(str(directory / "variables/variables"))
    sizes = [
        int(np.prod(shape)) for shape in reader.get_variable_to_shape_map().values()
    ]
    # One scalar more: the loader's own book-keeping of the object graph.
    assert sum(sizes) - trained.model.count_params() in (0, 1)
    objects = meta_graph(directory).object_graph_def.nodes
    kinds = {node.user_object.identifier for node in objects}
    assert not [kind for kind in kinds if "keras" in kind]
    tensors = {node.variable.name for node in objects if node.HasField("variable")}
    assert len(tensors) == len(trained.model.weights)


def test_another_export_is_another_version(own_run):
    flag = f"--model_dir={own_run.path}"
    before = (own_run.export / "1/saved_model.pb").read_bytes()
    done = run_program("export", flag, "--beam_size=1", "--checkpoint=best")
    # One of two evaluations was the best: which, the seed decides.
    (best,) = steps_in(own_run.best)
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout == f"exported step {best} to {own_run.export / '2'}\n"
    assert sorted(path.name for path in own_run.export.iterdir()) == ["1", "2"]
    assert (own_run.export / "1/saved_model.pb").read_bytes() == before
    card = own_run.run_card()["export"]
    assert card["directory"] == "export/2"
    assert card["checkpoint"] == f"best/step-{best}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--beam_size=0"], "--beam_size must be at least 1: 0"),
        (["--alpha=-1"], "--alpha must be at least 0: -1"),
        (["--checkpoint=7"], "There is no checkpoint '7' in"),
    ],
)
def test_what_cannot_be_exported_is_refused(own_run, arguments, message):
    done = run_program("export", f"--model_dir={own_run.path}", *arguments)
    assert done.status == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert [path.name for path in own_run.export.iterdir()] == ["1"]
