"""The translation API before the embedded server with a trained model."""

import json
import random
import urllib.request

import pytest
from libretranslatepy import LibreTranslateAPI

from benchmarks.server_process import BATCHING, started_server
from t2t_keras.server.translation_api.language_pairs import LanguagePair
from t2t_keras.server.translation_api.runner import running_translation_api
from t2t_keras.server.translation_api.settings import TranslationApiSettings
from t2t_keras.serving.client.translation_client import TranslationClient

# It needs a trained model and a server process.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(reverse_run):
    base, flag = reverse_run.model_dir.export, "--noenable_model_warmup"
    with started_server(base, flag, batching=BATCHING) as started:
        yield started


@pytest.fixture(scope="module")
def url(server):
    # The languages of this run, letters and their reverse, have no codes.
    settings = TranslationApiSettings(
        pairs=(LanguagePair("translate", "en", "de"),), server=server.address, port=0
    )
    with running_translation_api(settings) as port:
        yield f"http://127.0.0.1:{port}"


def post(url, path, **fields):
    request = urllib.request.Request(
        f"{url}/{path}",
        json.dumps({"source": "en", "target": "de"} | fields).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def test_texts_are_translated_as_by_the_models_client(url, server, reverse_run):
    sources = [source for source, _ in reverse_run.held_out[:40]]
    with TranslationClient(server.address) as client:
        expected = [each.text for each in client.translate(sources[:20])]
        expected += [each.text for each in client.translate(sources[20:])]
        (n_best,) = client.translate_n_best(sources[:1])
    assert post(url, "translate", q=sources)["translatedText"] == expected
    assert LibreTranslateAPI(url).translate(sources[0], "auto", "de") == expected[0]
    # Lines are translated one by one.
    answer = post(url, "translate", q="\n\n".join(sources[:5]))
    assert answer["translatedText"] == "\n\n".join(expected[:5])
    answer = post(url, "translate", q=sources[0], alternatives=50)
    others = list(dict.fromkeys(each.text for each in n_best))[1:]
    assert answer["alternatives"] == others


def test_tags_move_with_their_words(url, reverse_run):
    """The task is to reverse words, so that it is known where each tag belongs."""
    generator = random.Random(11)
    documents, expected, right = [], [], 0
    for source, target in reverse_run.held_out[:40]:
        words = source.split()
        if len(words) < 3 or len(set(words)) < len(words):
            continue
        at = generator.randrange(1, len(words) - 1)
        marked = [*words[:at], f"<b>{words[at]}</b>", *words[at + 1 :]]
        documents.append(f"<p>{' '.join(marked)}</p>")
        place = len(words) - 1 - at
        reverse = target.split()
        reverse[place] = f"<b>{reverse[place]}</b>"
        expected.append(f"<p>{' '.join(reverse)}</p>")
    assert len(documents) >= 10
    answers = post(url, "translate", q=documents, format="html")["translatedText"]
    assert all(each.count("<b>") == each.count("</b>") == 1 for each in answers)
    right = sum(a == b for a, b in zip(answers, expected, strict=True))
    assert right > len(documents) / 2
