"""Contract of TensorFlow Serving for requests: calls and their expected answers.

The messages are from the sources of version 2.20. `model_contract` has the calls about
models and versions.
"""

import re
from types import MappingProxyType

import numpy as np
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    predict_pb2,
)

from tests.server.tf_serving.calls import (
    answering_version,
    health,
    metadata,
    metadata_version,
    outputs,
    predict,
    predict_negative_size,
    predict_outputs,
    send_concatenated,
    signature_names,
    spec,
)

INVALID, MISSING, STATE = "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION"
NOBODY = re.escape("Servable not found for request: Latest(nobody)")

# Call, status code, and a pattern of the whole message.
REFUSALS = MappingProxyType(
    {
        # Model.
        "no model_spec": (
            predict(predict_pb2.PredictRequest()),
            INVALID,
            "Missing ModelSpec",
        ),
        "no name": (spec(name=""), INVALID, r"ModelSpec has no name specified\."),
        "unknown model": (spec(name="nobody"), MISSING, NOBODY),
        "unknown version": (
            spec(version=7),
            MISSING,
            re.escape("Servable not found for request: Specific(translate, 7)"),
        ),
        "unknown label": (
            spec(label="gold"),
            INVALID,
            "Unrecognized servable version label: gold",
        ),
        "unknown signature": (
            spec(signature="sing"),
            STATE,
            'Serving signature key "sing" not found.',
        ),
        # Inputs.
        "too many inputs": (
            predict(text=[b"a"], b=[1]),
            INVALID,
            re.escape(
                "input size does not match signature: 2!=1 len({b,text}) != "
                "len({text}). Sent extra: {b}. Missing but required: {}."
            ),
        ),
        "another name": (
            predict(texts=[b"a"]),
            INVALID,
            re.escape(
                "Signature input alias: text(feed name: serving_default_text:0) not "
            )
            + r"found in request and no default value provided\..*",
        ),
        "a required input is missing beside defaults": (
            predict(signature="with_options", beam_size=3),
            INVALID,
            r"Signature input alias: text\(.*default input alias set: .*",
        ),
        "a shape that cannot be": (
            predict_negative_size(),
            INVALID,
            "tensor parsing error: text",
        ),
        "another type": (
            predict(text=[1]),
            INVALID,
            r"(Expects arg\[0\] to be string but int32 is provided|Type mismatch: .*)",
        ),
        # Outputs.
        "unknown output": (
            predict_outputs("translations"),
            INVALID,
            "output tensor alias not found in signature: translations Outputs expected "
            r"to be in the set \{(score,translation|translation,score)\}\.",
        ),
        "an output twice": (
            predict_outputs("score", "score"),
            INVALID,
            "duplicate output tensor alias: score",
        ),
        # Execution.
        "an assertion in the graph": (
            predict(signature="picky", text=[b"poison"]),
            INVALID,
            r"(?s).*poison is not food.*",
        ),
        "a compiler is needed": (
            predict(signature="compiled", x=[1.0]),
            "INTERNAL",
            r"(?s)XLA compilation disabled.*",
        ),
        "the deadline": (
            predict(signature="busy", seconds=[30.0], timeout=0.5),
            "DEADLINE_EXCEEDED",
            ".*",
        ),
        "a long message": (
            spec(signature="x" * 3000),
            STATE,
            re.escape('Serving signature key "' + "x" * 1001 + "...TRUNCATED"),
        ),
        # Metadata.
        "metadata of nothing": (
            lambda client: client.prediction.GetModelMetadata(
                get_model_metadata_pb2.GetModelMetadataRequest(), 30
            ),
            INVALID,
            "Missing ModelSpec",
        ),
        "no metadata": (
            metadata(),
            INVALID,
            "GetModelMetadataRequest must specify at least one metadata_field",
        ),
        "other metadata": (
            metadata("signature_def", "age"),
            INVALID,
            # The real server may print its format string, followed by the field.
            "Metadata field .*is not supported.*",
        ),
        # Health.
        "health of an unknown service": (health("song"), MISSING, ".*"),
    }
)

# Call and expected answer.
ANSWERS = MappingProxyType(
    {
        "the latest version": (
            outputs(predict(text=[b"a", b""])),
            {
                "translation": [b"v2:a", b"v2:"],
                "score": [1.0, 0.0],
            },
        ),
        "a version": (
            outputs(spec(version=1)),
            {"translation": [b"v1:a"], "score": [0.5]},
        ),
        "a label": (
            outputs(spec(label="stable")),
            {"translation": [b"v1:a"], "score": [0.5]},
        ),
        "who answered for a label": (
            answering_version(spec(label="stable", signature="serving_default")),
            ("translate", 1, "serving_default"),
        ),
        "a label behind a version": (
            answering_version(send_concatenated({"version": 2}, {"label": "stable"})),
            ("translate", 1, "serving_default"),
        ),
        "some outputs": (outputs(predict_outputs("score")), {"score": [1.0]}),
        "no rows": (
            outputs(predict(signature="sums", ids=np.zeros([0, 3], np.int32))),
            {"sum": [], "rows": []},
        ),
        "any bytes": (
            outputs(predict(signature="picky", text=[b"\0", b"", b"\xff\xfe"])),
            {"translation": [b"\0", b"", b"\xff\xfe"]},
        ),
        "a shape beside the signature": (
            outputs(predict(text=[[b"a", b"b"]])),
            {"translation": [[b"v2:a", b"v2:b"]], "score": [[1.0, 1.0]]},
        ),
        "defaults": (
            outputs(predict(signature="with_options", text=[b"a"], alpha=0.25)),
            {"beam": [4.0], "alpha": [0.25]},
        ),
        "the signatures": (
            signature_names,
            (2, True, ["alpha", "beam_size", "text"], ["alpha", "beam_size"]),
        ),
        "metadata of a version": (metadata_version(version=1), 1),
        "health": (health("PredictionService"), b"\x08\x01"),
        "health of all": (health(""), b"\x08\x01"),
    }
)
