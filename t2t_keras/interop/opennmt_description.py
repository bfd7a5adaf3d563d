"""Reader of model_description.py, which OpenNMT-tf leaves beside its checkpoints.

The file is Python that builds the model. It is parsed, never executed: it may name a
model of the catalog, or give the arguments of one as literals.

Source: OpenNMT-tf 2.32, opennmt/config.py, opennmt/models/catalog.py and
opennmt/models/transformer.py.
"""

import ast
import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from t2t_keras.errors import UserError

_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "source_inputter": None,
        "target_inputter": None,
        "num_layers": 6,
        "num_units": 512,
        "num_heads": 8,
        "ffn_inner_dim": 2048,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "ffn_dropout": 0.1,
        "ffn_activation": "tensorflow.nn.relu",
        "mha_bias": True,
        "position_encoder_class": "opennmt.layers.SinusoidalPositionEncoder",
        "share_embeddings": None,
        "share_encoders": False,
        "maximum_relative_position": None,
        "attention_reduction": None,
        "pre_norm": True,
        "output_layer_bias": True,
    }
)
_BIG = MappingProxyType({"num_units": 1024, "num_heads": 16, "ffn_inner_dim": 4096})
_RELATIVE = MappingProxyType(
    {"position_encoder_class": None, "maximum_relative_position": 20}
)
_SCALING = MappingProxyType(
    {**_BIG, "pre_norm": False, "ffn_dropout": 0, "output_layer_bias": False}
)
_TINY = MappingProxyType(
    {"num_layers": 2, "num_units": 64, "num_heads": 2, "ffn_inner_dim": 64}
)
# What a model of the catalog has in place of the defaults.
_CATALOG: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "Transformer": MappingProxyType({}),
        "TransformerBase": MappingProxyType({}),
        "TransformerBaseSharedEmbeddings": MappingProxyType({}),
        "TransformerRelative": _RELATIVE,
        "TransformerBaseRelative": _RELATIVE,
        "TransformerBig": _BIG,
        "TransformerBigSharedEmbeddings": _BIG,
        "TransformerBigRelative": MappingProxyType({**_BIG, **_RELATIVE}),
        "TransformerTiny": _TINY,
        "ScalingNmtEnDe": MappingProxyType({**_SCALING, "dropout": 0.3}),
        "ScalingNmtEnFr": MappingProxyType({**_SCALING, "attention_dropout": 0}),
    }
)
# Arguments that every release has in this order.
_POSITIONAL = 6
# Models whose automatic settings, of --auto_config, put </s> after a source.
_AUTOMATIC_END = ("ScalingNmtEnDe", "ScalingNmtEnFr")
_METHODS = ("__init__", "auto_config")
_SOURCE_CONTROLS = "source_sequence_controls"


class Inputter(NamedTuple):
    """A call that makes an inputter: its class and arguments."""

    name: str
    arguments: Mapping[str, Any]


class Description(NamedTuple):
    """What a description says.

    Attributes:
        name: The model's class in OpenNMT-tf.
        arguments: Its arguments, and the defaults of others. Names of Python objects
            are strings, such as "tensorflow.nn.relu".
        may_end_sources: Whether automatic settings may put </s> after a source.
    """

    name: str
    arguments: Mapping[str, Any]
    may_end_sources: bool


def read_description(path: Path) -> Description:
    """Returns what a file model_description.py says.

    Raises:
        UserError: If it is damaged, of another architecture, or has code whose result
            is not known without executing it.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        tree = ast.parse(text)
    except (ValueError, SyntaxError, RecursionError) as error:
        raise UserError(f"{path} is damaged, or not Python: {error}.") from error
    name, arguments = _Parser(path, tree).model()
    ends = name in _AUTOMATIC_END or _SOURCE_CONTROLS in text
    return Description(name, {**_DEFAULTS, **_CATALOG[name], **arguments}, ends)


class _Parser:
    """Finds the model that a description builds."""

    def __init__(self, path: Path, tree: ast.Module):
        self._path = path
        self._tree = tree
        self._classes = {
            node.name: node for node in tree.body if isinstance(node, ast.ClassDef)
        }
        self._imported: dict[str, str] = {}
        for node in tree.body:
            if isinstance(node, ast.Import):
                for each in node.names:
                    first = each.name.partition(".")[0]
                    self._imported[each.asname or first] = (
                        each.name if each.asname else first
                    )
            elif isinstance(node, ast.ImportFrom):
                for each in node.names:
                    whole = f"{node.module}.{each.name}"
                    self._imported[each.asname or each.name] = whole

    def model(self) -> tuple[str, dict[str, Any]]:
        """Returns the name of the model's class in OpenNMT-tf, and its arguments."""
        for node in self._tree.body:
            if isinstance(node, ast.Assign) and any(
                isinstance(each, ast.Name) and each.id == "model"
                for each in node.targets
            ):
                value = node.value
                return self._build(
                    value.body if isinstance(value, ast.Lambda) else value
                )
            if isinstance(node, ast.FunctionDef) and node.name == "model":
                (last,) = self._statements(node)[-1:] or [None]
                if len(self._statements(node)) != 1 or not isinstance(last, ast.Return):
                    raise self._unknown(node, "`model` must return a model at once")
                return self._build(last.value)
        raise UserError(f"{self._path} must say `model = ...`, and does not.")

    def _build(self, node: ast.expr | None) -> tuple[str, dict[str, Any]]:
        """Returns class and arguments of an expression that makes a model."""
        if isinstance(node, ast.Call):
            called = self._dotted(node.func)
            if called is not None and called.endswith("get_model_from_catalog"):
                arguments = [*node.args, *(each.value for each in node.keywords)]
                name = arguments[0] if len(arguments) == 1 else None
                if isinstance(name, ast.Constant):
                    return self._known(str(name.value)), {}
                raise self._unknown(node, "a model of the catalog needs its name")
            name, arguments = self._build(node.func)
            return name, arguments | self._keywords(node)
        if isinstance(node, ast.Name) and node.id in self._classes:
            return self._build_class(self._classes.pop(node.id))
        dotted = None if node is None else self._dotted(node)
        if dotted is not None and dotted.startswith("opennmt."):
            return self._known(dotted.rpartition(".")[2]), {}
        raise self._unknown(node or self._tree, "a model of OpenNMT-tf was expected")

    def _known(self, name: str) -> str:
        if name not in _CATALOG:
            raise UserError(
                f"{self._path} cannot be imported: it has another architecture. "
                f"Expected {', '.join(_CATALOG)}. Received: {name}"
            )
        return name

    def _build_class(self, node: ast.ClassDef) -> tuple[str, dict[str, Any]]:
        """Returns the base of a class, and what it passes to the base's `__init__`."""
        if len(node.bases) != 1:
            raise self._unknown(node, "a class must have one base")
        name, arguments = self._build(node.bases[0])
        for method in self._statements(node):
            if not isinstance(method, ast.FunctionDef) or method.name not in _METHODS:
                raise self._unknown(method, "it changes more than arguments of a model")
            if method.name == "__init__":
                arguments |= self._passed(method)
        return name, arguments

    def _passed(self, method: ast.FunctionDef) -> dict[str, Any]:
        statements = self._statements(method)
        call = statements[0] if len(statements) == 1 else None
        if (
            not isinstance(call, ast.Expr)
            or not isinstance(call.value, ast.Call)
            or not isinstance(call.value.func, ast.Attribute)
            or call.value.func.attr != "__init__"
        ):
            raise self._unknown(method, "only super().__init__(...) is understood")
        return self._keywords(call.value)

    def _statements(self, node: ast.ClassDef | ast.FunctionDef) -> list[ast.stmt]:
        """Returns what a class or function does, without docstring and `pass`."""
        return [
            each
            for each in node.body
            if not isinstance(each, ast.Pass)
            and not (
                isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
            )
        ]

    def _keywords(self, call: ast.Call) -> dict[str, Any]:
        """Returns the arguments of a call that makes a model."""
        names = [each.arg for each in call.keywords]
        if len(call.args) > _POSITIONAL or any(name not in _DEFAULTS for name in names):
            raise self._unknown(
                call, f"arguments must have a name, one of {', '.join(_DEFAULTS)}"
            )
        values = dict(zip(_DEFAULTS, call.args, strict=False))
        values |= {str(each.arg): each.value for each in call.keywords}
        return {name: self._value(value) for name, value in values.items()}

    def _value(self, node: ast.expr) -> Any:
        """Returns a literal, the name of an object, or the call of an inputter."""
        with contextlib.suppress(ValueError):  # it is no literal
            return ast.literal_eval(node)
        if isinstance(node, ast.Call):
            name = self._dotted(node.func) or ""
            arguments = {each.arg or "": each.value for each in node.keywords}
            arguments |= dict(zip(("embedding_size",), node.args, strict=False))
            if name.startswith("opennmt."):
                return Inputter(
                    name.rpartition(".")[2],
                    {key: ast.unparse(each) for key, each in arguments.items()},
                )
        dotted = self._dotted(node)
        if dotted is None:
            raise self._unknown(node, "arguments must be literals")
        return dotted

    def _dotted(self, node: ast.AST) -> str | None:
        """Returns the whole name of an imported object; None if it is none."""
        if isinstance(node, ast.Attribute):
            before = self._dotted(node.value)
            return None if before is None else f"{before}.{node.attr}"
        return self._imported.get(node.id) if isinstance(node, ast.Name) else None

    def _unknown(self, node: ast.AST, expected: str) -> UserError:
        line = getattr(node, "lineno", 1)
        return UserError(
            f"{self._path} cannot be understood without executing it: {expected}. "
            f"Received in line {line}: {ast.unparse(node):.80}. Write the model that "
            "it builds, with numbers."
        )
