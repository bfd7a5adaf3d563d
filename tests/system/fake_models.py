"""A fake gRPC server's answers, from the fake models of the translation API's tests."""

import numpy as np

from tests.server.translation_api.fake_backend import FakeBackend
from tests.serving.fake_server import read_texts


def answer_by(backend: FakeBackend):
    """Returns a function that answers requests as an export with these models would."""

    def answer(request):
        model = request.model_spec.name
        name = request.model_spec.signature_name
        if name == "attention":
            return _attention(backend, model, request)
        texts = [text.decode() for text in read_texts(request)]
        if name == "nbest":
            rows = backend.translate_n_best(model, texts)
            shape = len(rows), len(rows[0])
            return {
                "translations": np.array(
                    [[each.text.encode() for each in row] for row in rows], object
                ),
                "scores": np.full(shape, -1.0, np.float32),
                "lengths": np.full(shape, 2, np.int32),
            }
        translated = backend.translate(model, texts)
        return {
            "translation": np.array(
                [each.text.encode() for each in translated], object
            ),
            "score": np.full(len(texts), -1.0, np.float32),
        }

    return answer


def _attention(backend, model, request):
    sides = [
        [text.decode() for text in read_texts(request, name)]
        for name in ("source", "target")
    ]
    assert len(sides[0]) == 1  # no padding
    (attention,) = backend.attention(model, *sides)
    tokens = attention.source_tokens, attention.target_tokens
    return {
        "memory_attention": np.array([attention.weights], np.float32),
        "source_tokens": np.array([[each.encode() for each in tokens[0]]], object),
        "target_tokens": np.array([[each.encode() for each in tokens[1]]], object),
        "source_length": np.array([len(tokens[0])], np.int32),
        "target_length": np.array([len(tokens[1])], np.int32),
    }
