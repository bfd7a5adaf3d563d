"""The translation API's page in a real browser."""

import contextlib
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
    open_translator(browser, url)
    yield browser
    assert browser.errors == []
    assert all(each.startswith(url) or each == "data:," for each in browser.requests)


def open_translator(browser, url, **size):
    browser.open(url, **size)
    wait_until(lambda: browser.value("document.querySelectorAll('#to option').length"))


@contextlib.contextmanager
def limited_page(browser, backend, **limits):
    """Opens the page of an API with other limits."""
    with serve(answer_by(backend)) as (server, _):
        with running_translation_api(
            settings(THREE_PAIRS, server=server, port=0, **limits)
        ) as port:
            open_translator(browser, f"http://127.0.0.1:{port}/")
            yield browser


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
    busy = "document.querySelector('[aria-busy]') !== null"
    wait_until(lambda: target(page) and not page.value(busy))


def status(page):
    return page.value("document.getElementById('status').textContent")


def shown(page, name):
    """Returns the text of an element, None if it is hidden."""
    return page.value(
        f"(e => e.hidden ? null : e.textContent)(document.getElementById('{name}'))"
    )


def box(page, selector):
    """Returns left, top, right and bottom of an element in the window."""
    return page.value(
        f"(r => [r.left, r.top, r.right, r.bottom])"
        f"(document.querySelector('{selector}').getBoundingClientRect())"
    )


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
    wait_until(lambda: target(page) == "++a ++b")


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
    translate(page, "Aa")
    # The first translation shows what pointing at a word does.
    wait_until(lambda: marks(page) == ["Aa"])
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
    assert page.value("document.activeElement.id") == "translate"
    page.key("Tab")
    assert page.value("document.activeElement.className") == "word chosen"
    first = ["bb"]
    wait_until(lambda: marks(page) == first)
    page.key("End")
    wait_until(lambda: marks(page) == ["Aa"])
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
        wait_until(lambda: "took too long" in status(page))
        assert target(page) == ""
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
    open_translator(page, url, width=390, height=844)
    translate(page, "aa bb. " * 200)
    assert page.value("document.documentElement.scrollWidth") <= 390
    # The languages are in one row, and the button is in the window, above the
    # translation, although the text is longer than it.
    assert box(page, "#from")[1] == box(page, "#to")[1] == box(page, "#swap")[1]
    page.value("scrollTo(0, 0)")
    assert box(page, "#target")[1] > 844 > box(page, "#translate")[3]
    assert page.value("document.elementFromPoint(340, 810).id") == "translate"


def test_boxes_have_one_height_that_grows_with_the_text(page):
    heights = []
    for text in ("aa", "aa\n" * 12):
        translate(page, text)
        wait_until(lambda text=text: target(page).count("a") == text.count("a"))
        sides = [box(page, f".card:nth-of-type({number})") for number in (1, 2)]
        assert sides[0][1::2] == sides[1][1::2]
        heights.append(sides[0][3] - sides[0][1])
    assert heights[1] > heights[0] + 50


def test_text_is_translated_while_it_is_written(page, backend):
    choose(page, "from", "en")
    backend.calls.clear()
    for text in ("a", "a b", "a b c"):
        write(page, text)
    wait_until(lambda: target(page) == "+c +b +a")
    # Those before the pause were not asked for.
    assert backend.sentences("n_best") == ["a b c"]
    backend.hold.clear()
    try:
        write(page, "d")
        wait_until(lambda: "d" in backend.sentences("n_best"))
        write(page, "e")
        wait_until(lambda: "e" in backend.sentences("n_best"))
    finally:
        backend.hold.set()
    wait_until(lambda: target(page) == "+e")
    write(page, "")
    assert (target(page), status(page)) == ("", "")


def test_a_sign_for_an_uncertain_translation(page):
    translate(page, "Aa. Bb? Cc.")
    assert shown(page, "doubt").startswith("Uncertain: 1 of 3 sentences")
    words = "[...document.querySelectorAll('.doubtful')].map(e => e.textContent)"
    assert page.value(words) == ["+", "Bb", "?"]
    translate(page, "Aa")
    wait_until(lambda: target(page) == "+Aa")
    assert shown(page, "doubt") is None


def test_what_was_written_since_the_translation_stays(page):
    translate(page, "a b", source="en")
    write(page, "c d")
    assert page.value("document.getElementById('copy').disabled")
    page.mouse("#swap", click=True)
    assert page.value("document.getElementById('source').value") == "c d"


def test_copy_clear_and_count(page):
    translate(page, "🙂 a")
    assert shown(page, "count") == "3 / 20,000"
    page.mouse("#copy", click=True)
    wait_until(lambda: shown(page, "copy") == "Copied")
    page.mouse("#clear", click=True)
    assert target(page) == ""
    assert shown(page, "count") == "0 / 20,000"
    assert page.value("document.getElementById('copy').disabled")
    assert page.value("document.activeElement.id") == "source"


def test_every_limit_is_obeyed(browser, backend, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret-key\n")
    for limits, alternatives in (
        ({"alternatives_limit": 0}, 0),
        ({"alternatives_limit": 1}, 1),
        ({"batch_limit": 1, "char_limit": -1}, 2),
    ):
        with limited_page(browser, backend, **limits) as page:
            translate(page, "a")
            assert target(page) == "+a"
            count = "document.querySelectorAll('#alternatives li').length"
            assert page.value(count) == alternatives
            assert browser.errors == []
    with limited_page(browser, backend, char_limit=3) as page:
        choose(page, "from", "en")
        backend.calls.clear()
        write(page, "🙂🙂🙂b")
        wait_until(lambda: "longer than 3 characters" in status(page))
        assert page.value("document.querySelector('#count.over') !== null")
        assert backend.calls == []
        write(page, "🙂 b")
        wait_until(lambda: target(page) == "+b +🙂")
        assert not page.value("document.querySelector('#count.over') !== null")
    with limited_page(browser, backend, api_keys_file=str(keys)) as page:
        choose(page, "from", "en")
        write(page, "a")
        wait_until(lambda: status(page) == "This server needs an API key.")
        page.value(
            "(e => { e.value = 'secret-key'; e.dispatchEvent(new Event('change')); })"
            "(document.getElementById('key'))"
        )
        wait_until(lambda: target(page) == "+a")
    with limited_page(browser, backend, requests_per_minute=1) as page:
        translate(page, "a")
        write(page, "b")
        wait_until(lambda: "Next attempt in" in status(page))
        assert marks(page) == []  # the example would have been a request
    browser.errors.clear()
