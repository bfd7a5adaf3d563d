"""Example and warm-up requests: contents, file format, and reading back."""

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from t2t_keras.serving.export.requests import (
    Request,
    example_request,
    make_text,
    read_warm_up,
    row_options,
    write_warm_up,
)


def test_a_text_of_a_given_number_of_tokens(vocabulary):
    for tokens in [1, 2, 3, 4, 7, 12, 100]:
        text = make_text(vocabulary, tokens)
        num_tokens = len(vocabulary.encode(text))
        assert num_tokens <= max(tokens, len(vocabulary.encode("a"))), tokens
        assert len(vocabulary.encode(text + " a")) > tokens, tokens


def test_an_example_has_the_inputs_of_the_signature(vocabulary):
    request = example_request("x", {"source", "target"}, ["ab c", "", "c"], vocabulary)
    assert request.signature_name == "x"
    assert {name: value.tolist() for name, value in request.inputs.items()} == {
        "source": [b"ab c", b"", b"c"],
        "target": [b"ab c", b"", b"c"],
    }
    ids = example_request("y", {"input_ids"}, ["ab c", ""], vocabulary).inputs
    row = vocabulary.encode("ab c")
    assert ids["input_ids"].tolist() == [row, [1] + [0] * (len(row) - 1)]
    assert ids["input_ids"].dtype == np.int32
    none = example_request("z", {"output_ids", "alpha"}, [], vocabulary).inputs
    assert {name: value.shape for name, value in none.items()} == {"output_ids": (0, 1)}
    options = {"alpha": np.float32(0.5), "beam_size": np.int32(3)}
    each = example_request("z", {"text"}, ["a", "b"], vocabulary, options).inputs
    assert each["alpha"].tolist() == [0.5, 0.5]
    assert each["beam_size"].tolist() == [3, 3]
    assert (each["alpha"].dtype, each["beam_size"].dtype) == (np.float32, np.int32)


def test_warm_up_requests_have_the_path_and_format_of_tensorflow_serving(tmp_path):
    text = np.array([b"a", "ü\0".encode()], dtype=object)
    ids = np.array([[5, 1, 0], [7, 8, 1]], np.int32)
    sent = [
        Request("serving_default", {"text": text}),
        Request("i", {"input_ids": ids}),
    ]
    write_warm_up(tmp_path, sent)
    path = tmp_path / "assets.extra/tf_serving_warmup_requests"
    records = [*tf.data.TFRecordDataset(str(path)).as_numpy_iterator()]
    logs = [prediction_log_pb2.PredictionLog.FromString(record) for record in records]
    assert [log.WhichOneof("log_type") for log in logs] == ["predict_log"] * 2
    first = logs[0].predict_log.request
    assert first.model_spec.signature_name == "serving_default"
    assert list(first.inputs["text"].string_val) == [b"a", "ü\0".encode()]
    again = list(read_warm_up(tmp_path))
    assert [request.signature_name for request in again] == ["serving_default", "i"]
    assert again[0].inputs["text"].tolist() == text.tolist()
    assert again[1].inputs["input_ids"].tolist() == ids.tolist()
    assert again[1].inputs["input_ids"].dtype == np.int32


def test_without_requests_there_is_no_file(tmp_path):
    """TensorFlow Serving warms up nothing if the file is missing."""
    write_warm_up(tmp_path, [])
    assert not (tmp_path / "assets.extra/tf_serving_warmup_requests").exists()
    assert (tmp_path / "assets.extra").is_dir()  # for the vocabulary
    assert list(read_warm_up(tmp_path)) == []


def test_options_of_rows_are_the_defaults(served):
    options = row_options(served.signatures["translate_with_options"])
    assert {name: value.item() for name, value in options.items()} == {
        "beam_size": 4,
        "alpha": 0.5,
        "max_length": 15,
    }
    assert row_options(served.signatures["nbest"]) == {}
