"""Configuration files of TensorFlow Serving: reader, and messages its package lacks.

tensorflow-serving-api has the requests and answers, but not its batching
and TLS configurations. Text files written for the real messages are read by these.
"""

from pathlib import Path
from typing import Any

from google.protobuf import text_format

from t2t_keras.errors import UserError
from t2t_keras.files.lines import read_text
from t2t_keras.serving.proto_files import load_messages

# Servers read this file of a version with --enable_per_model_batching_parameters.
BATCHING_OF_VERSION = "batching_params.pbtxt"


def read_text_proto(path: str | Path, message: Any) -> Any:
    """Fills `message` from a text file, and returns it.

    Raises:
        UserError: If the file cannot be read as such a message.
    """
    kind = message.DESCRIPTOR.full_name
    text = read_text(path, what=f"a text protocol buffer of type {kind}")
    try:
        return text_format.Parse(text, message)
    except text_format.ParseError as error:
        # In TensorFlow Serving's words, for which scripts and its own tests look.
        raise UserError(f"{path}: Error parsing text-format {kind}: {error}") from error


def empty_message(name: str) -> Any:
    """Returns an empty message of `tensorflow.serving`, such as an `SSLConfig`."""
    return load_messages()[f"tensorflow.serving.{name}"]()
