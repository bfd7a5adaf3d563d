"""Requests that nobody should send, made up at random, and what may come of them."""

import random
from collections.abc import Callable, Iterator

import grpc
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import predict_pb2

Request = predict_pb2.PredictRequest

# What a request that is wrong may be told. Not INTERNAL nor UNKNOWN, which tell that
# the server was surprised, nor UNAVAILABLE, which would have the client come again.
PROPER = frozenset(
    {
        grpc.StatusCode.OK,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
    }
)

LETTERS = "abcdefghij"
ODD_CHARACTERS = (
    *(
        "\u202e",
        "\u200f",
        "שלום",
        "مرحبا",
        "\u200d",
        "👩‍👩‍👧‍👦",
        "🏳️‍🌈",
        "\ufeff",
        "\u2028",
    ),
    *("\u0300" * 40, "ﷺ", "𒐫", "\U0010ffff", "\x7f", "\x1b[31m", "\x01\x02", "▁", "İ"),
)
BROKEN = (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf8\x88", b"\xe2\x82", b"\x80" * 9)


def hostile_text(generator: random.Random) -> bytes:
    """Returns a text that is empty, huge, broken, or strange."""
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


def texts_request(texts: list[bytes], signature: str = "") -> Request:
    """Returns a request as it should be, whatever the texts are."""
    request = Request()
    request.model_spec.name = "translate"
    request.model_spec.signature_name = signature
    text = request.inputs["text"]
    text.dtype = types_pb2.DT_STRING
    text.tensor_shape.dim.add(size=len(texts))
    text.string_val.extend(texts)
    return request


def hostile_requests(count: int, seed: int) -> Iterator[Request]:
    """Yields requests of all kinds; one in 250 is huge."""
    generator = random.Random(seed)
    damages = (
        *(_wrong_dtype, _wrong_shape, _wrong_count, _wrong_name, _wrong_model),
        *(_wrong_filter, _garbage, _wrong_size),
    )
    for number in range(count):
        if number % 250 == 249:
            yield texts_request([huge_text(generator)])
        elif number % 3 == 0:
            texts = [hostile_text(generator) for _ in range(generator.randrange(4))]
            yield texts_request(texts)
        elif number % 3 == 1:
            yield _hostile_ids(generator)
        else:
            request = texts_request([hostile_text(generator)])
            for damage in generator.sample(damages, generator.choice((1, 1, 2))):
                damage(request, generator)
            yield request


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
            *([], [1, 1], [1, 1, 1], [0], [0, 5], [2**40], [2**62, 2**62], [-1], [-7]),
            *([1] * 300, [2**31, 0]),
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
    given = request.inputs["text"]
    name = generator.choice(("", "TEXT", "text:0", "input_ids", "a" * 9_999, "\x00"))
    if generator.random() < 0.5:
        request.inputs[name].CopyFrom(given)
    else:
        copied = Request()
        copied.inputs[name].CopyFrom(given)
        request.ClearField("inputs")
        request.MergeFrom(copied)


def _wrong_model(request: Request, generator: random.Random) -> None:
    spec = request.model_spec
    kinds: tuple[Callable[[], object], ...] = (
        lambda: request.ClearField("model_spec"),
        lambda: setattr(spec, "name", ""),
        lambda: setattr(spec, "name", "../../etc/passwd"),
        lambda: setattr(spec, "name", "x" * 100_000),
        lambda: setattr(spec.version, "value", generator.choice((-1, 0, 99, 2**62))),
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
    """More rows than the server joins."""
    request.CopyFrom(texts_request([b"a b"] * generator.choice((33, 100, 3_000))))


def _hostile_ids(generator: random.Random) -> Request:
    """Ids out of range, without an end, of any width; sometimes no ids at all."""
    request = Request()
    request.model_spec.name = "translate"
    request.model_spec.signature_name = "translate_ids"
    rows, width = generator.randrange(3), generator.choice((0, 1, 2, 7, 40))
    ids = request.inputs["input_ids"]
    ids.dtype = types_pb2.DT_INT32
    for size in (rows, width):
        ids.tensor_shape.dim.add(size=size)
    strange = (-1, -(2**31), 0, 1, 2, 3, 279, 280, 281, 10**6, 2**31 - 1)
    ids.int_val.extend(generator.choices(strange, k=rows * width))
    return request
