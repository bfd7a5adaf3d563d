"""Answers of a server, checked against the contract of their signature."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from t2t_keras.serving import signature
from t2t_keras.serving.client.errors import ServerError


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
                size = f"{len(values)} value{'s' * (len(values) != 1)}"
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
