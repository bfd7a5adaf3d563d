"""Graphs of SavedModels, in both forms of the file."""

from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

from t2t_keras.server.tf_serving.graphs import compiled_outputs, read_meta_graph


def test_a_graph_is_read_in_either_form_if_it_has_the_tags(base):
    directory = base / "1"
    binary = directory / "saved_model.pb"
    meta_graph = read_meta_graph(directory, ["serve"])
    model = saved_model_pb2.SavedModel.FromString(binary.read_bytes())
    (directory / "saved_model.pbtxt").write_text(text_format.MessageToString(model))
    binary.unlink()
    assert meta_graph == model.meta_graphs[0]
    assert read_meta_graph(directory, ["serve"]) == meta_graph
    assert not read_meta_graph(directory, ["serve", "gpu"]).ByteSize()


def test_only_what_xla_compiles_needs_it(saved):
    meta_graph = read_meta_graph(saved / "1", ["serve"])
    (compiled,) = meta_graph.signature_def["compiled"].outputs.values()
    assert compiled_outputs(meta_graph) == {compiled.name}
