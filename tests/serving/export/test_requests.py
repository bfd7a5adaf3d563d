"""Example and warm-up requests: contents, file format, and reading back."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from t2t_keras.serving.export.requests import (
    Request,
    read_warm_up,
    write_warm_up,
)


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


def test_more_requests_than_a_server_accepts_are_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"at most 1000 requests\. Received: 1001"):
        write_warm_up(tmp_path, [Request("s", {})] * 1001)


def test_without_requests_there_is_no_file(tmp_path):
    """TensorFlow Serving warms up nothing if the file is missing."""
    write_warm_up(tmp_path, [])
    assert not (tmp_path / "assets.extra/tf_serving_warmup_requests").exists()
    assert (tmp_path / "assets.extra").is_dir()  # for the vocabulary
    assert list(read_warm_up(tmp_path)) == []
