"""The translation API's page in a real browser."""

import json

import grpc
import pytest

from t2t_keras.server.translation_api.runner import running_translation_api
from tests.pictures.browser import open_page
from tests.server.translation_api.fake_backend import (
    THREE_PAIRS,
    FakeBackend,
    settings,
    wait_until,
)
from tests.serving.fake_server import RefusalError, serve
from tests.system.fake_models import answer_by

HOSTILE = '<script>window.hacked=1</script> "quoted" \'<img src=x onerror=hacked=1>'


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_page(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def backend():
    return FakeBackend()


@pytest.fixture(scope="module")
def url(backend):
    with serve(answer_by(backend)) as (server, _):
        with running_translation_api(
            settings(THREE_PAIRS, server=server, port=0)
        ) as port:
            yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def page(browser, url):
    browser.open(url)
    wait_until(lambda: browser.value("document.querySelectorAll('#to option').length"))
    yield browser
    assert browser.errors == []
    assert all(each.startswith(url) or each == "data:," for each in browser.requests)


def choose(page, name, value):
    page.value(
        f"(() => {{ const e = document.getElementById('{name}'); e.value = '{value}';"
        "e.dispatchEvent(new Event('change')); })()"
    )


def options(page, name):
    return page.value(
        f"[...document.querySelectorAll('#{name} option')].map(o => o.value)"
    )


def write(page, text):
    page.value(
        "(() => { const e = document.getElementById('source');"
        f"e.value = {json.dumps(text)}; e.dispatchEvent(new Event('input')); }})()"
    )


def target(page):
    return page.value("document.getElementById('target').textContent")


def translate(page, text, source="en"):
    choose(page, "from", source)
    write(page, text)
    page.mouse("#translate", click=True)
    wait_until(lambda: target(page))


def marks(page):
    return page.value(
        "[...document.querySelectorAll('#backdrop mark')].map(m => m.textContent)"
    )


def test_languages_and_swap(page):
    assert options(page, "from") == ["auto", "en", "de", "fr"]
    assert page.value("document.getElementById('from').value") == "auto"
    assert options(page, "to") == ["de", "en", "pt-BR"]
    choose(page, "from", "fr")
    assert options(page, "to") == ["pt-BR"]
    assert page.value("document.getElementById('swap').disabled")
    translate(page, "a b")
    assert options(page, "to") == ["de"]
    assert not page.value("document.getElementById('swap').disabled")
    page.mouse("#swap", click=True)
    assert page.value("document.getElementById('from').value") == "de"
    assert page.value("document.getElementById('to').value") == "en"
    assert page.value("document.getElementById('source').value") == "+b +a"
    assert target(page) == ""


def test_the_address_may_have_text_and_languages(page, url):
    page.open(f"{url}?source=fr&target=pt-BR&q=a%20%3Cb%3E%0Ac")
    wait_until(lambda: page.value("document.getElementById('target').textContent"))
    assert target(page) == "+<b> +a\n+c"
    assert page.value("document.getElementById('from').value") == "fr"
    assert page.value("document.getElementById('source').value") == "a <b>\nc"
    page.open(f"{url}?source=xx&target=en&q=b")
    wait_until(lambda: page.value("document.getElementById('target').textContent"))
    assert page.value("document.getElementById('from').value") == "auto"
    assert page.value("document.getElementById('to').value") == "en"


def test_a_translation_with_alternatives(page):
    translate(page, "Aa bb. Cc\n\ndd!")
    assert target(page) == "+bb. +Aa +Cc\n\n+dd!"
    assert page.value(
        "[...document.querySelectorAll('#alternatives li')].map(e => e.textContent)"
    ) == ["+bb. +Aa' +Cc'\n\n+dd!'", "+bb. +Aa'' +Cc''\n\n+dd!''"]


def test_a_word_of_the_translation_marks_its_source_words(page, backend):
    translate(page, "🙂 Aa bb. Cc dd ee.")
    backend.calls.clear()
    assert marks(page) == []
    page.mouse("#target span.word:nth-last-of-type(1)")
    wait_until(lambda: marks(page))
    assert marks(page) == ["Cc"]
    # The copy of the text is where the text is, so that marks are at their words.
    assert page.value("document.getElementById('backdrop').textContent") == page.value(
        "document.getElementById('source').value"
    )
    assert (
        page.value(
            "getComputedStyle(document.querySelector('#backdrop mark')).backgroundColor"
        )
        == "rgba(11, 87, 208, 0.6)"
    )
    page.mouse("#target span.word:nth-last-of-type(2)")
    page.mouse_away()
    wait_until(lambda: not marks(page))
    # One request for a sentence, however many of its words are pointed at.
    assert backend.sentences("attention") == ["Cc dd ee."]
    page.mouse("#target span.word:nth-of-type(2)")
    wait_until(lambda: marks(page))
    assert backend.sentences("attention") == ["Cc dd ee.", "🙂 Aa bb."]


def test_the_keyboard(page):
    choose(page, "from", "en")
    write(page, "Aa bb")
    page.value("document.getElementById('translate').focus()")
    page.key("Enter")
    wait_until(lambda: target(page))
    page.value("document.getElementById('source').focus()")
    page.key("Tab")
    wait_until(lambda: marks(page))
    assert page.value("document.activeElement.className") == "word chosen"
    first = marks(page)
    page.key("End")
    wait_until(lambda: marks(page) not in ([], first))
    assert (first, marks(page)) == (["bb"], ["Aa"])
    page.key("Home")
    wait_until(lambda: marks(page) == first)
    page.key("Escape")
    wait_until(lambda: not marks(page))
    assert page.value("document.activeElement.id") == "source"


def test_text_is_never_html(page):
    translate(page, HOSTILE)
    assert page.value("window.hacked") is None
    assert sorted(target(page).replace("+", "").split()) == sorted(HOSTILE.split())
    page.mouse("#target span.word")
    wait_until(lambda: marks(page))
    assert page.value("document.querySelectorAll('img, #target script').length") == 0
    assert page.value("window.hacked") is None


def test_errors_are_shown(page, backend):
    backend.error = RefusalError(grpc.StatusCode.DEADLINE_EXCEEDED)
    try:
        choose(page, "from", "en")
        write(page, "a")
        page.mouse("#translate", click=True)
        status = "document.getElementById('status').textContent"
        wait_until(lambda: "took too long" in page.value(status))
        assert page.value("document.querySelector('#status.error') !== null")
    finally:
        backend.error = None
    # Browsers log the status.
    page.errors.clear()


def test_every_control_has_a_label(page):
    unlabelled = page.value(
        "[...document.querySelectorAll('select, textarea, input, button')].filter(e =>"
        "!(e.labels && e.labels.length) && !e.textContent.trim() &&"
        "!e.getAttribute('aria-label')).map(e => e.id)"
    )
    assert unlabelled == []
    assert (
        page.value("document.getElementById('status').getAttribute('role')") == "status"
    )


def test_dark_and_narrow(page, url):
    color = "getComputedStyle(document.body).backgroundColor"
    page.prefer("light")
    light = page.value(color)
    page.prefer("dark")
    assert page.value(color) != light
    page.prefer("light")
    page.open(url, width=360, height=700)
    assert page.value("document.documentElement.scrollWidth") <= 360
