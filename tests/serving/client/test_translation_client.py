"""TranslationClient: its requests, and the results it makes of the answers."""

import math
import threading

import numpy as np
import pytest

from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.client.translation_client import (
    CrossAttention,
    SearchOptions,
    TargetScore,
    TranslatedText,
    TranslationClient,
)
from tests.serving.fake_server import answer_nbest, read_texts, serve, shout


@pytest.fixture
def served():
    """A client of a fake server, and its service, which keeps the requests."""
    with serve(shout) as (server, service), TranslationClient(server) as client:
        yield client, service


def test_each_text_has_its_translation(served):
    client, service = served
    translations = client.translate(["größe".encode(), "ab", "c" * 21, ""])
    assert translations == [
        # Bytes, of which only ASCII is upper-cased.
        TranslatedText("GRößE", -0.875, False),
        TranslatedText("AB", -0.25, False),
        TranslatedText("C" * 20, -2.625, True),
        TranslatedText("", 0.0, False),
    ]
    (request,) = service.requests
    assert set(request.inputs) == {"text"}
    assert request.model_spec.signature_name == "serving_default"


def test_an_older_export_without_truncated_is_accepted():
    def answer(request):
        outputs = dict(shout(request))
        del outputs["truncated"]
        return outputs

    with serve(answer) as (server, _), TranslationClient(server) as client:
        assert client.translate(["c" * 30]) == [TranslatedText("C" * 20, -3.75, False)]


def test_a_translation_that_is_not_utf8_is_decoded():
    def broken(request):
        return shout(request) | {"translation": np.array([b"a\xff"], object)}

    with serve(broken) as (server, _), TranslationClient(server) as client:
        assert client.translate(["x"])[0].text == "a\ufffd"


def test_options_are_sent_for_each_text(served):
    client, service = served
    client.translate(["a", "b"], SearchOptions(8, 0.25, 17))
    client.translate(["a"], SearchOptions(max_length=5))
    client.translate(["a"], SearchOptions())
    first, second, third = service.requests
    assert set(first.inputs) == {"text", "beam_size", "alpha", "max_length"}
    assert list(first.inputs["beam_size"].int_val) == [8, 8]
    assert list(first.inputs["alpha"].float_val) == [0.25, 0.25]
    assert list(first.inputs["max_length"].int_val) == [17, 17]
    assert set(second.inputs) == {"text", "max_length"}
    assert list(second.inputs["max_length"].int_val) == [5]
    names = [r.model_spec.signature_name for r in (first, second, third)]
    assert names == ["translate_with_options"] * 2 + ["serving_default"]


def test_with_a_beam_size_the_other_options_are_sent_too(served):
    """A server with batching would refuse the defaults, which are scalars.

    `test_translator_module` shows that an export treats these values as its defaults.
    """
    client, service = served
    client.translate(["a", "b"], SearchOptions(beam_size=8))
    (request,) = service.requests
    assert list(request.inputs["beam_size"].int_val) == [8, 8]
    assert all(map(math.isnan, request.inputs["alpha"].float_val))
    assert len(request.inputs["alpha"].float_val) == 2
    assert list(request.inputs["max_length"].int_val) == [2**31 - 1] * 2


def test_languages_are_sent_for_each_text(served):
    client, service = served
    other = client.for_languages("de", "fr")
    other.translate(["a", "b"])
    other.translate(["a"], SearchOptions(alpha=0.25))
    other.translate(["a"], prefixes=["x"])
    client.translate(["a"])
    first, second, third, fourth = service.requests
    options = {"beam_size", "alpha", "max_length"}
    languages = {"source_language", "target_language"}
    assert set(first.inputs) == {"text"} | options | languages
    assert read_texts(first, "source_language") == [b"de", b"de"]
    assert read_texts(first, "target_language") == [b"fr", b"fr"]
    # 0 and NaN stand for the export's own.
    assert list(first.inputs["beam_size"].int_val) == [0, 0]
    assert all(map(math.isnan, first.inputs["alpha"].float_val))
    assert list(second.inputs["alpha"].float_val) == [0.25]
    assert set(third.inputs) == {"text", "prefix"} | languages
    assert set(fourth.inputs) == {"text"}


def test_languages_that_a_model_does_not_have_are_an_error():
    def answer(request):
        score = np.array([-math.inf if b"x" in read_texts(request) else -1.0], "f")
        return shout(request) | {"score": score}

    with serve(answer) as (server, _), TranslationClient(server) as client:
        other = client.for_languages("de", "xx")
        assert other.translate(["a"])[0].score == -1.0
        with pytest.raises(ServerError, match=r"between these languages: de to xx\. G"):
            other.translate(["x"])
        # Of a model of one pair it is the score of a search that found nothing.
        assert client.translate(["x"])[0].score == -math.inf


def test_prefixes_are_sent_with_the_texts(served):
    client, service = served
    client.translate(["a", "b"], prefixes=["x", ""])
    (request,) = service.requests
    assert request.model_spec.signature_name == "translate_with_prefix"
    assert set(request.inputs) == {"text", "prefix"}
    assert read_texts(request, "prefix") == [b"x", b""]
    for options, prefixes in ((None, ["x"]), (SearchOptions(2), ["x", "y"])):
        with pytest.raises(ValueError, match="Each text must have its prefix, and pre"):
            client.translate(["a", "b"], options, prefixes=prefixes)


def test_terms_are_sent_with_the_texts():
    with serve(answer_nbest) as (server, service), TranslationClient(server) as client:
        found = client.translate_n_best(["a", "b"], 1, [["x  y", "z"], []])
        client.for_languages("de", "fr").translate_n_best(["c"], terms=[["\nx"]])
        for terms in ([["x"]], ["xy", "z"]):
            with pytest.raises(ValueError, match="Each text must have a list of terms"):
                client.translate_n_best(["a", "b"], terms=terms)
    assert [each.text for (each,) in found] == ["A0", "B0"]
    first, second = service.requests
    assert first.model_spec.signature_name == "nbest_with_terms"
    assert set(first.inputs) == {"text", "terms"}
    assert read_texts(first, "terms") == [b"x y\nz", b""]
    assert read_texts(second, "terms") == [b"x"]
    assert set(second.inputs) >= {"source_language", "target_language"}


def test_the_n_best_without_empty_slots():
    with serve(answer_nbest) as (server, service), TranslationClient(server) as client:
        three = client.translate_n_best(["a", "", "bcd"])
        two = client.translate_n_best(["a", "", "bcd"], 2)
        with pytest.raises(ServerError, match=r"returns 3 translations .* n_best=4"):
            client.translate_n_best(["a"], 4)
    assert three == [
        [TranslatedText("A0", -0.5, False)],
        [TranslatedText("", 0.0, False)],
        [
            TranslatedText("BCD0", -0.5, True),
            TranslatedText("BCD1", -1.5, True),
            TranslatedText("BCD2", -2.5, True),
        ],
    ]
    assert two == [three[0], three[1], three[2][:2]]
    assert service.requests[0].model_spec.signature_name == "nbest"


def test_scores_of_given_translations():
    def score(request):
        targets = read_texts(request, "target")
        assert read_texts(request, "source") == [b"a", b"b"]
        return {
            "log_prob": np.array([-1.0, -7.0], np.float32),
            "score": np.array([-0.5, -3.0], np.float32),
            "target_length": np.array([2, 3], np.int32),
            "target_tokens": np.array(
                [[targets[0], b"</s>", b""], [b"\xff", targets[1], b"</s>"]], object
            ),
            "token_log_probs": np.array([[-0.25, -0.75, 0], [-1, -2, -4]], np.float32),
            "truncated": np.array([False, True], bool),
        }

    with serve(score) as (server, service), TranslationClient(server) as client:
        scores = client.score(["a", "b"], ["x", "ü"])
        with pytest.raises(ValueError, match="2 sources and 1 targets"):
            client.score(["a", "b"], ["x"])
    assert scores == [
        TargetScore(-1.0, -0.5, ("x", "</s>"), (-0.25, -0.75)),
        TargetScore(-7.0, -3.0, ("\ufffd", "ü", "</s>"), (-1.0, -2.0, -4.0), True),
    ]
    assert service.requests[0].model_spec.signature_name == "score"


def test_threads_can_share_a_client(served):
    client, service = served
    wrong = []

    def use(name):
        for number in range(20):
            texts = [f"{name}-{number}", f"{number}-{name}"]
            translations = [each.text for each in client.translate(texts)]
            if translations != [text.upper() for text in texts]:
                wrong.append((texts, translations))

    threads = [threading.Thread(target=use, args=(f"t{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(service.requests) == 8 * 20


def test_a_context_manager_closes_the_client(served):
    client, _ = served
    with client:
        client.translate(["a"])
    with pytest.raises(ServerError, match="The client was closed"):
        client.translate(["a"])


def test_no_texts_have_no_translations(served):
    client, _ = served
    assert client.translate([]) == []


def test_attention_without_its_padding():
    weights = np.random.default_rng(3).random((2, 3, 2, 4, 5)).astype(np.float32)

    def attend(request):
        assert read_texts(request, "source") == [b"a b", b"c"]
        assert read_texts(request, "target") == [b"x", b"y z"]
        return {
            "memory_attention": weights,
            "source_tokens": np.array(
                [[b"a", b"b", b"</s>", b"", b""], [b"c", b"", b"", b"", b""]], object
            ),
            "source_length": np.array([3, 1], np.int32),
            "target_tokens": np.array(
                [[b"x", b"</s>", b"", b""], [b"y", b"z", b"q", b"</s>"]], object
            ),
            "target_length": np.array([2, 4], np.int32),
            "truncated": np.array([False, True], bool),
        }

    with serve(attend) as (server, service), TranslationClient(server) as client:
        first, second = client.attention(["a b", "c"], ["x", "y z"])
        with pytest.raises(ValueError, match="2 sources and 1 targets"):
            client.attention(["a", "b"], ["x"])
    assert first == CrossAttention(
        ("a", "b", "</s>"), ("x", "</s>"), weights[0, :, :, :2, :3].tolist(), False
    )
    assert second.target_tokens == ("y", "z", "q", "</s>")
    assert second.weights == weights[1, :, :, :4, :1].tolist()
    assert second.truncated
    (request,) = service.requests
    assert request.model_spec.signature_name == "attention"
    # Attention within a sentence is twice as much again, and nobody asked for it.
    assert "encoder_attention" not in request.output_filter
    assert "memory_attention" in request.output_filter
