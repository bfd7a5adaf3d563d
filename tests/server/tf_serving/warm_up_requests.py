"""Files of warm-up requests, in the format of TensorFlow Serving."""

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from t2t_keras.server.tf_serving.loading import WARM_UP_FILE
from tests.server.tf_serving.clients import request


def predict_log(signature="", **inputs):
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.CopyFrom(request(signature, **inputs))
    return log


def write(directory, *records):
    path = directory / WARM_UP_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            raw = isinstance(record, bytes)
            writer.write(record if raw else record.SerializeToString())
    return path
