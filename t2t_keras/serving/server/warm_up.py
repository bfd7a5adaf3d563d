"""Warm-up of a version: requests from its directory, run before it takes others.

The first run of a shape is slow: TensorFlow prepares, XLA compiles. A record that
fails makes the load fail, because every such request would.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import prediction_log_pb2

from t2t_keras.serving.server.errors import ServingError, invalid_argument
from t2t_keras.serving.server.other_methods import check_method, multi_inference
from t2t_keras.serving.server.predict import predict
from t2t_keras.serving.server.session import RunFn

REQUESTS_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
MOST_RECORDS = 1000


def warm_up(
    directory: Path,
    run: RunFn,
    signatures: Mapping[str, Any],
    iterations: int = 1,
) -> int:
    """Runs the warm-up requests of a version, and returns their number.

    Args:
        directory: Directory of the version.
        run: Run function of the model.
        signatures: `SignatureDef`s of the model by name.
        iterations: Number of times that each is run.

    Raises:
        ServingError: If one fails, there are more than `MOST_RECORDS`, or the file
            is damaged.
    """
    path = directory / REQUESTS_FILE
    if not path.is_file():
        return 0
    count = 0
    try:
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            count += 1
            if count > MOST_RECORDS:
                raise invalid_argument(
                    "Number of warmup records exceeds the maximum "
                    f"({MOST_RECORDS}) at {path}"
                )
            for _ in range(iterations):
                _run_record(_parse_record(record, path), run, signatures)
    except tf.errors.DataLossError as error:
        raise ServingError(
            grpc.StatusCode.DATA_LOSS,
            f"{error.message}. Please verify your warmup data is in TFRecord format.",
        ) from error
    return count


def _parse_record(record: bytes, path: Path) -> Any:
    try:
        return prediction_log_pb2.PredictionLog.FromString(record)
    except DecodeError as error:
        raise invalid_argument(
            f"Failed to parse warmup record: {record[:80]!r} from {path}"
        ) from error


def _run_record(log: Any, run: RunFn, signatures: Mapping[str, Any]) -> None:
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        predict(run, signatures, log.predict_log.request)
    elif kind == "classify_log":
        check_method(log.classify_log.request.model_spec, "classify", signatures)
    elif kind == "regress_log":
        check_method(log.regress_log.request.model_spec, "regress", signatures)
    elif kind == "multi_inference_log":
        multi_inference(log.multi_inference_log.request, signatures)
    elif kind == "session_run_log":
        raise ServingError(
            grpc.StatusCode.UNIMPLEMENTED, "Unsupported log_type for warmup: 5"
        )
