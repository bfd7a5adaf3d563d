"""A fake gRPC server's answers, from the fake models of the translation API's tests."""

import numpy as np

from t2t_keras.server.translation_api.language_pairs import LanguagePair
from tests.server.translation_api.fake_backend import FakeBackend
from tests.serving.fake_server import read_texts

SIDES = ("source", "target")


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
    found = backend.attention(pair, *_sides(request))
    sides = [[getattr(each, f"{side}_tokens") for each in found] for side in SIDES]
    lengths = [[len(tokens) for tokens in side] for side in sides]
    longest = [max(side) for side in lengths]
    weights = [np.array(each.weights, np.float32) for each in found]
    # A server pads the pairs of a request to the longest.
    padded = [
        np.pad(each, [(0, 0), (0, 0), *_missing(each.shape[:1:-1], longest)])
        for each in weights
    ]
    answer = {"memory_attention": np.stack(padded)}
    for name, tokens, counts, width in zip(SIDES, sides, lengths, longest, strict=True):
        rows = [[*each, *[""] * (width - len(each))] for each in tokens]
        encoded = [[token.encode() for token in row] for row in rows]
        answer[f"{name}_tokens"] = np.array(encoded, object)
        answer[f"{name}_length"] = np.array(counts, np.int32)
    return answer


def _missing(shape, longest):
    """Returns what is missing of a map [T, S], whose sizes are in the other order."""
    pairs = zip(shape, longest, strict=True)
    return [(0, width - size) for size, width in pairs][::-1]
