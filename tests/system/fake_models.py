"""A fake gRPC server's answers, from the fake models of the translation API's tests."""

import numpy as np

from t2t_keras.server.translation_api.language_pairs import LanguagePair
from tests.server.translation_api.fake_backend import FakeBackend
from tests.serving.fake_server import read_texts


def answer_by(backend: FakeBackend):
    """Returns a function that answers requests as an export with these models would."""

    def answer(request):
        pair = LanguagePair(request.model_spec.name, "", "")
        name = request.model_spec.signature_name
        if name == "attention":
            return _attention(backend, pair, request)
        if name == "score":
            return _score(backend, pair, request)
        texts = [text.decode() for text in read_texts(request)]
        if name == "nbest":
            rows = backend.translate_n_best(pair, texts)
            shape = len(rows), len(rows[0])
            return {
                "translations": np.array(
                    [[each.text.encode() for each in row] for row in rows], object
                ),
                "scores": np.full(shape, -1.0, np.float32),
                "lengths": np.full(shape, 2, np.int32),
            }
        translated = backend.translate(pair, texts)
        return {
            "translation": np.array(
                [each.text.encode() for each in translated], object
            ),
            "score": np.full(len(texts), -1.0, np.float32),
        }

    return answer


def _sides(request):
    return [
        [text.decode() for text in read_texts(request, name)]
        for name in ("source", "target")
    ]


def _score(backend, pair, request):
    scores = backend.score(pair, *_sides(request))
    longest = max(len(each.tokens) for each in scores)
    tokens = [
        [*(token.encode() for token in each.tokens), *[b""] * longest][:longest]
        for each in scores
    ]
    log_probs = [[*each.token_log_probs, *[0.0] * longest][:longest] for each in scores]
    return {
        "log_prob": np.array([each.log_prob for each in scores], np.float32),
        "score": np.array([each.score for each in scores], np.float32),
        "target_length": np.array([len(each.tokens) for each in scores], np.int32),
        "target_tokens": np.array(tokens, object),
        "token_log_probs": np.array(log_probs, np.float32),
    }


def _attention(backend, pair, request):
    sides = _sides(request)
    assert len(sides[0]) == 1  # no padding
    (attention,) = backend.attention(pair, *sides)
    tokens = attention.source_tokens, attention.target_tokens
    return {
        "memory_attention": np.array([attention.weights], np.float32),
        "source_tokens": np.array([[each.encode() for each in tokens[0]]], object),
        "target_tokens": np.array([[each.encode() for each in tokens[1]]], object),
        "source_length": np.array([len(tokens[0])], np.int32),
        "target_length": np.array([len(tokens[1])], np.int32),
    }
