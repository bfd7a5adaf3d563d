"""TensorFlow Serving's messages, and tensors in them, without TensorFlow and NumPy.

Python values become tensors of a request. Those of an answer become lists, which are
checked against the contract of their signature.
"""

import enum
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from t2t_keras.errors import check_list, check_text
from t2t_keras.serving import signature
from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.proto_files import load_messages

_MESSAGES = load_messages()
PredictRequest = _MESSAGES["tensorflow.serving.PredictRequest"]
PredictResponse = _MESSAGES["tensorflow.serving.PredictResponse"]
TensorProto = _MESSAGES["tensorflow.serving.TensorProto"]
_DTYPES = TensorProto.DESCRIPTOR.fields_by_name["dtype"].enum_type.values
DataType: Any = enum.IntEnum("DataType", {each.name: each.number for each in _DTYPES})


def string_tensor(values: Sequence[str | bytes]) -> Message:
    """Returns [B] string; text as UTF-8, bytes as they are.

    Raises:
        UserError: If the values are not texts in a list.
    """
    check_list("Texts", values)
    for value in values:
        check_text("Each value", value)
    proto = _vector(DataType.DT_STRING, len(values))
    proto.string_val.extend(
        value.encode("utf-8", "replace") if isinstance(value, str) else value
        for value in values
    )
    return proto


def int32_tensor(values: Sequence[int]) -> Message:
    """Returns [B] int32.

    Raises:
        ValueError: If a value does not fit.
    """
    proto = _vector(DataType.DT_INT32, len(values))
    proto.int_val.extend(values)
    return proto


def int64_tensor(values: Sequence[int]) -> Message:
    """Returns [B] int64.

    Raises:
        ValueError: If a value does not fit.
    """
    proto = _vector(DataType.DT_INT64, len(values))
    proto.int64_val.extend(values)
    return proto


def float32_tensor(values: Sequence[float]) -> Message:
    """Returns [B] float32."""
    proto = _vector(DataType.DT_FLOAT, len(values))
    proto.float_val.extend(values)
    return proto


def _vector(dtype: int, length: int) -> Message:
    proto = TensorProto(dtype=dtype)
    proto.tensor_shape.dim.add(size=length)
    return proto


def nested_values(proto: Message) -> Any:
    """Returns a tensor's values in lists as deep as its shape; strings are bytes.

    Raises:
        ValueError: If the number of values does not fit the shape, or they are encoded
            in a way that no signature needs.
    """
    shape = [dim.size for dim in proto.tensor_shape.dim]
    values = _flat_values(proto)
    if len(values) != math.prod(shape):
        raise ValueError(f"{len(values)} values in a tensor of shape {shape}")
    return _nested(values, shape)


def _nested(values: Sequence[Any], shape: Sequence[int]) -> Any:
    if len(shape) < 2:
        return list(values) if shape else values[0]
    step = math.prod(shape[1:])
    rows = (values[row * step : (row + 1) * step] for row in range(shape[0]))
    return [_nested(row, shape[1:]) for row in rows]


def _flat_values(proto: Message) -> Sequence[Any]:
    typed = {
        DataType.DT_FLOAT: ("f", proto.float_val),
        DataType.DT_INT32: ("i", proto.int_val),
        DataType.DT_INT64: ("q", proto.int64_val),
        DataType.DT_BOOL: ("?", proto.bool_val),
        DataType.DT_STRING: ("", proto.string_val),
    }
    if proto.dtype not in typed:
        names = {each.value: each.name for each in DataType}
        name = names.get(proto.dtype, f"number {proto.dtype}")
        raise ValueError(f"a tensor of dtype {name}")
    code, values = typed[proto.dtype]
    packed = proto.tensor_content
    if not packed:
        return values
    if not code:
        raise ValueError(
            "strings in packed form, which a server writes that was started with "
            "--enable_serialization_as_tensor_content"
        )
    count, rest = divmod(len(packed), struct.calcsize(f"<{code}"))
    if rest:
        raise ValueError(f"{len(packed)} bytes of packed values of format {code!r}")
    return struct.unpack(f"<{count}{code}", packed)


@dataclass(frozen=True)
class Answer:
    """Outputs of a signature, checked before they are used.

    Every method raises `ServerError` where an output is not what it should be.

    Attributes:
        outputs: Nested lists by name.
        count: Number of texts in the request.
        signature_name: Name of the signature, for messages.
    """

    outputs: Mapping[str, Any]
    count: int
    signature_name: str

    def column(self, name: str, kind: type) -> list[Any]:
        """Returns an output of one value for each text."""
        values = self._output(name)
        self._check_kind(name, values, kind)
        return values

    def rows(self, name: str, kind: type, at_least: int = 0) -> list[list[Any]]:
        """Returns an output of one list for each text."""
        values = self._output(name)
        self._check_kind(name, values, list)
        if values and len(values[0]) < at_least:
            raise ServerError(
                f"The export returns {len(values[0])} translations of each text. "
                f"Received: n_best={at_least}"
            )
        for row in values:
            self._check_kind(name, row, kind)
        return values

    def maps(self, name: str) -> list[Any]:
        """Returns an output of four dimensions for each text: [R, H, T, S] floats."""
        values = self._output(name)
        rows = values
        for _ in range(4):
            self._check_kind(name, rows, list)
            rows = [row for each in rows for row in each]
        self._check_kind(name, rows, float)
        return values

    def has_impossible(self, *names: str) -> bool:
        """Returns whether an output's best score of a row is minus infinity.

        Args:
            names: Outputs, of which the answer may lack some.
        """
        return any(
            (score[0] if isinstance(score, list) else score) == -math.inf
            for name in names
            for score in self.outputs.get(name) or ()
        )

    def truncated(self) -> list[bool]:
        """Returns whether each text was truncated; False without that output."""
        if signature.TRUNCATED not in self.outputs:
            return [False] * self.count
        return self.column(signature.TRUNCATED, bool)

    def _output(self, name: str) -> Any:
        if name not in self.outputs:
            raise ServerError(
                f"Signature {self.signature_name!r} returned no output {name!r} (got: "
                f"{', '.join(sorted(self.outputs)) or 'nothing'}). Is it a model that "
                "t2t_keras exported?"
            )
        values = self.outputs[name]
        if not isinstance(values, list) or len(values) != self.count:
            size = "a scalar"
            if isinstance(values, list):
                size = f"{len(values)} value{'' if len(values) == 1 else 's'}"
            raise ServerError(
                f"Signature {self.signature_name!r} returned {size} for {self.count} "
                f"texts in output {name!r}."
            )
        return values

    def _check_kind(self, name: str, values: Sequence[Any], kind: type) -> None:
        for value in values:
            if type(value) is not kind:
                raise ServerError(
                    f"Signature {self.signature_name!r} returned {name!r} as "
                    f"{type(value).__name__} instead of {kind.__name__}."
                )
