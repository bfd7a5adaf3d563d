"""Random malformed requests, each with the status codes allowed for it."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import NamedTuple

import grpc
from google.protobuf.message import Message
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import predict_pb2

from t2t_keras.serving import signature
from t2t_keras.serving.client.tensors import float32_tensor, int32_tensor, string_tensor

Request = predict_pb2.PredictRequest
Tensor = tensor_pb2.TensorProto

# Statuses allowed for a malformed request. Not INTERNAL or UNKNOWN, which mean a bug in
# the server, nor UNAVAILABLE, on which the client would retry.
PROPER = frozenset(
    {
        grpc.StatusCode.OK,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
    }
)

_OK = frozenset({grpc.StatusCode.OK})
_REFUSED = frozenset({grpc.StatusCode.INVALID_ARGUMENT})

# The signatures that take texts.
_INPUTS = MappingProxyType(
    {
        signature.TRANSLATE: (signature.TEXT,),
        signature.NBEST: (signature.TEXT,),
        signature.TRANSLATE_WITH_OPTIONS: (signature.TEXT,),
        signature.SCORE_TARGET: (signature.SOURCE, signature.TARGET),
        signature.ATTENTION: (signature.SOURCE, signature.TARGET),
    }
)
# Negative, special, last valid and out-of-range ids; also used as options.
_STRANGE_IDS = (-1, -(2**31), 0, 1, 2, 3, 279, 280, 281, 10**6, 2**31 - 1)
LETTERS = "abcdefghij"
ODD_CHARACTERS = (
    "\u202e",
    "\u200f",
    "שלום",
    "مرحبا",
    "\u200d",
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "\ufeff",
    "\u2028",
    "\u0300" * 40,
    "ﷺ",
    "𒐫",
    "\U0010ffff",
    "\x7f",
    "\x1b[31m",
    "\x01\x02",
    "▁",
    "İ",
)
BROKEN = (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf8\x88", b"\xe2\x82", b"\x80" * 9)


def hostile_text(generator: random.Random) -> bytes:
    """Returns a text that is empty, invalid UTF-8 or has unusual characters."""
    kinds: tuple[Callable[[], bytes], ...] = (
        lambda: b"",
        lambda: b" \t\r\n" * generator.randrange(9),
        lambda: b"\x00" * generator.randrange(1, 9),
        lambda: generator.randbytes(generator.randrange(1, 200)),
        lambda: "".join(generator.choices(ODD_CHARACTERS, k=9)).encode(),
        lambda: b"a b".join(generator.choices(BROKEN, k=9)),
        lambda: " ".join(generator.choices(LETTERS, k=30)).encode(),
        lambda: bytes(generator.choices(range(32), k=40)),
        lambda: b"<pad> </s> <unk> <0x0A> <0x41>",
    )
    return generator.choice(kinds)()


def huge_text(generator: random.Random) -> bytes:
    """Returns a megabyte, or a line of 10,000 tokens or more."""
    kinds: tuple[Callable[[], bytes], ...] = (
        lambda: b"a" * 2**20,
        lambda: b"a " * 2**19,
        lambda: b"\xff" * 2**20,
        lambda: b"\x00" * 2**20,
        lambda: "👩‍👩‍👧‍👦".encode() * 40_000,
        lambda: " ".join(generator.choices(LETTERS, k=10_000)).encode(),
    )
    return generator.choice(kinds)()


class HostileRequest(NamedTuple):
    """A request and the statuses allowed for it.

    Attributes:
        request: Request to send.
        proper: Allowed statuses. Only OK if nothing but texts, ids and options is
            unusual: any other status would fail all requests in the same batch.
        rows: Number of rows of each output; `None` if unknown.
    """

    request: Request
    proper: frozenset[grpc.StatusCode]
    rows: int | None = None


def hostile_requests(count: int, seed: int) -> Iterator[HostileRequest]:
    """Yields requests of all kinds; two in 250 are huge, one of them in few bytes."""
    generator = random.Random(seed)
    damages = (
        _wrong_dtype,
        _wrong_shape,
        _wrong_count,
        _wrong_name,
        _unknown_model,
        _wrong_model,
        _wrong_filter,
        _garbage,
        _wrong_size,
    )
    for number in range(count):
        # Mostly the default signature: the others take longer, and the server batches
        # its rows most.
        (name,) = generator.choices(tuple(_INPUTS), weights=(16, 1, 1, 1, 1))
        rows = generator.randrange(4)
        if number % 250 == 249:
            texts = [[huge_text(generator)] for _ in _INPUTS[name]]
            yield HostileRequest(_request(name, texts, generator), _OK, 1)
        elif number % 250 == 124:
            yield HostileRequest(_huge_in_few_bytes(name, generator), _REFUSED)
        elif number % 3 == 0:
            yield HostileRequest(_hostile_texts(name, rows, generator), _OK, rows)
        elif number % 3 == 1:
            yield HostileRequest(_hostile_ids(rows, generator), _OK, rows)
        else:
            request = _hostile_texts(name, 1, generator)
            # In turn, so that a short test has each damage; a third of the requests
            # have another one on top.
            damages[number // 3 % len(damages)](request, generator)
            if generator.random() < 1 / 3:
                generator.choice(damages)(request, generator)
            yield HostileRequest(request, PROPER)


def _request(
    name: str, texts: Sequence[Sequence[bytes]], generator: random.Random
) -> Request:
    """Returns a well-formed request; each input may hold any texts."""
    request = Request()
    request.model_spec.name = "translate"
    # The default signature need not be named.
    named = name != signature.TRANSLATE or generator.random() < 0.5
    request.model_spec.signature_name = name if named else ""
    for alias, values in zip(_INPUTS[name], texts, strict=True):
        _set(request.inputs[alias], string_tensor(values))
    if name == signature.TRANSLATE_WITH_OPTIONS:
        rows = len(texts[0])
        for alias in (signature.BEAM_SIZE, signature.MAX_LENGTH):
            numbers = generator.choices(_STRANGE_IDS, k=rows)
            _set(request.inputs[alias], int32_tensor(numbers))
        alphas = generator.choices((0.6, -1.0, 1e38, math.inf, math.nan), k=rows)
        _set(request.inputs[signature.ALPHA], float32_tensor(alphas))
    return request


def _set(tensor: Tensor, ours: Message) -> None:
    """Sets a tensor of TensorFlow to one of the client's."""
    tensor.ParseFromString(ours.SerializeToString())


def _hostile_texts(name: str, rows: int, generator: random.Random) -> Request:
    texts = [[hostile_text(generator) for _ in range(rows)] for _ in _INPUTS[name]]
    return _request(name, texts, generator)


def _huge_in_few_bytes(name: str, generator: random.Random) -> Request:
    """Returns a request with one value and a shape of millions of rows or columns."""
    request = _request(name, [[b"a b c"] for _ in _INPUTS[name]], generator)
    sizes = generator.choice(([2**22], [2**22, 3], [1, 2**22]))
    for tensor in request.inputs.values():
        tensor.ClearField("tensor_shape")
        for size in sizes:
            tensor.tensor_shape.dim.add(size=size)
    return request


def _wrong_dtype(request: Request, generator: random.Random) -> None:
    dtype = generator.choice([*types_pb2.DataType.values(), 9999])
    for tensor in request.inputs.values():
        tensor.dtype = dtype
        if generator.random() < 0.5:
            tensor.ClearField("string_val")
            tensor.float_val.append(0.5)
            tensor.int_val.append(-1)


def _wrong_shape(request: Request, generator: random.Random) -> None:
    sizes = generator.choice(
        [
            [],
            [1, 1],
            [1, 1, 1],
            [0],
            [0, 5],
            [2**40],
            [2**62, 2**62],
            [-1],
            [-7],
            [1] * 300,
            [2**31, 0],
        ]
    )
    for tensor in request.inputs.values():
        tensor.ClearField("tensor_shape")
        for size in sizes:
            tensor.tensor_shape.dim.add(size=size)
        tensor.tensor_shape.unknown_rank = generator.random() < 0.2


def _wrong_count(request: Request, generator: random.Random) -> None:
    for tensor in request.inputs.values():
        del tensor.string_val[:]
        tensor.string_val.extend([b"a"] * generator.choice((0, 2, 50)))


def _wrong_name(request: Request, generator: random.Random) -> None:
    tensor = request.inputs[generator.choice(sorted(request.inputs) or ["text"])]
    name = generator.choice(("", "TEXT", "text:0", "input_ids", "a" * 9_999, "\x00"))
    if generator.random() < 0.5:
        request.inputs[name].CopyFrom(tensor)
    else:
        copied = Request()
        copied.inputs[name].CopyFrom(tensor)
        request.ClearField("inputs")
        request.MergeFrom(copied)


def _unknown_model(request: Request, generator: random.Random) -> None:
    spec = request.model_spec
    kinds: tuple[Callable[[], object], ...] = (
        lambda: setattr(spec, "name", "../../etc/passwd"),
        lambda: setattr(spec, "name", "x" * 100_000),
        lambda: setattr(spec.version, "value", generator.choice((99, 2**62))),
    )
    generator.choice(kinds)()


def _wrong_model(request: Request, generator: random.Random) -> None:
    spec = request.model_spec
    kinds: tuple[Callable[[], object], ...] = (
        lambda: request.ClearField("model_spec"),
        lambda: setattr(spec, "name", ""),
        lambda: setattr(spec.version, "value", generator.choice((-1, 0))),
        lambda: setattr(spec, "version_label", "no such label"),
        lambda: setattr(spec, "signature_name", "__saved_model_init_op"),
        lambda: setattr(spec, "signature_name", "no such signature"),
        lambda: setattr(spec, "signature_name", "translate_ids"),
    )
    generator.choice(kinds)()


def _wrong_filter(request: Request, generator: random.Random) -> None:
    names = ["translation", "score", "no such output", ""]
    request.output_filter.extend(generator.choices(names, k=generator.randrange(1, 4)))


def _garbage(request: Request, generator: random.Random) -> None:
    for tensor in request.inputs.values():
        tensor.tensor_content = generator.randbytes(generator.randrange(1, 99))
        tensor.version_number = generator.randrange(-9, 9)


def _wrong_size(request: Request, generator: random.Random) -> None:
    """Replaces the request by one with more rows than the server accepts."""
    name = generator.choice(tuple(_INPUTS))
    rows = [b"a b"] * generator.choice((33, 100, 3_000))
    request.CopyFrom(_request(name, [rows for _ in _INPUTS[name]], generator))


def _hostile_ids(rows: int, generator: random.Random) -> Request:
    """Returns ids out of range, without EOS, of any width; sometimes no ids."""
    request = Request()
    request.model_spec.name = "translate"
    request.model_spec.signature_name = signature.TRANSLATE_IDS
    width = generator.choice((0, 1, 2, 7, 40))
    ids = request.inputs[signature.INPUT_IDS]
    ids.dtype = types_pb2.DT_INT32
    for size in (rows, width):
        ids.tensor_shape.dim.add(size=size)
    ids.int_val.extend(generator.choices(_STRANGE_IDS, k=rows * width))
    return request
