"""Interactive attention page: its data, and its behavior in a real browser."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from t2t_keras.model.sentence_maps import SentenceMaps
from t2t_keras.pictures.page import SCALE, attention_page
from t2t_keras.pictures.palette import head_color
from t2t_keras.pictures.words import merge_sentence_words
from tests.pictures.browser import Page, open_page
from tests.pictures.random_maps import HOSTILE, SOURCE, TARGET, H, R, random_maps

FAINTEST = 0.02
# Half a unit in the last digit of the page's data.
ROUNDING = 0.5 / SCALE + 1e-9


class Elements(HTMLParser):
    """Parser that collects a page's elements with attributes, and its scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._in_script = False

    def handle_data(self, data):
        if self._in_script:
            self.scripts[-1] += data


def read_data(page: str) -> dict:
    return json.loads(Elements(page).scripts[0])


@pytest.mark.parametrize("tokens", [(SOURCE, TARGET), (HOSTILE, HOSTILE)])
def test_the_data_equal_the_maps_to_three_digits(tokens) -> None:
    sentences = [random_maps(*tokens, seed=1), random_maps(TARGET, SOURCE, seed=2)]
    data = read_data(attention_page(sentences))
    assert (data["scale"], data["heads"]) == (1000, [1, 2, 3])
    assert data["layers"] == dict.fromkeys(("encoder", "decoder", "memory"), R)
    for sentence, maps in zip(data["sentences"], sentences, strict=True):
        for unit, whole in (("subwords", maps), ("words", merge_sentence_words(maps))):
            for kind, attention in zip(whole._fields, whole, strict=True):
                assert tuple(sentence[unit][kind]["queries"]) == attention.queries
                assert tuple(sentence[unit][kind]["keys"]) == attention.keys
                weights = np.reshape(
                    sentence[unit][kind]["weights"], attention.weights.shape
                )
                np.testing.assert_allclose(
                    weights / SCALE, attention.weights, rtol=0, atol=ROUNDING
                )


def test_encoder_and_decoder_may_have_other_numbers_of_layers() -> None:
    maps = random_maps()
    shallow = {
        kind: part._replace(weights=part.weights[:1])
        for kind, part in maps._asdict().items()
        if kind != "encoder"
    }
    data = read_data(attention_page([maps._replace(**shallow)]))
    assert data["layers"] == {"encoder": R, "decoder": 1, "memory": 1}


def test_without_subwords_only_words_can_be_shown() -> None:
    data = read_data(
        attention_page([random_maps(("▁a", "▁b", "</s>"), ("▁c", "</s>"))])
    )
    assert data["units"] == ["words"]
    assert data["texts"] == [["a b", "c"]]


def test_nothing_is_fetched_and_no_token_becomes_markup() -> None:
    page = attention_page(
        [random_maps(HOSTILE, HOSTILE)], title='<img src="x"> & {{ title }}'
    )
    parsed = Elements(page)
    for _, attributes in parsed.elements:
        assert not {"src", "srcset", "action"} & attributes.keys()
        assert attributes.get("href", "data:,") == "data:,"
    # Only the page's own two scripts, data and code.
    assert len(parsed.scripts) == 2
    assert "<img" not in page
    assert "&lt;img src=&#34;x&#34;&gt; &amp; {{ title }}" in page
    urls = set(re.findall(r"https?://[^\s\"']+", page))
    assert urls == {"http://www.w3.org/2000/svg"}  # a namespace, never requested
    policy = next(a["content"] for _, a in parsed.elements if "http-equiv" in a)
    assert policy and policy.startswith("default-src 'none';")


# --- In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def show(browser, tmp_path):
    """A function that opens the page of some sentences in the browser."""

    def open_page(
        sentences: list[SentenceMaps],
        width: int = 1200,
        hash: str = "",
        **settings: str,
    ) -> Page:
        path = Path(tmp_path / "attention.html")
        path.write_text(attention_page(sentences, **settings), encoding="utf-8")
        browser.mouse_away()
        browser.open("about:blank")
        browser.open(path.as_uri() + hash, width)
        return browser

    return open_page


def read_lines(page: Page) -> dict[tuple[int, int, int], float]:
    """Returns the opacity of each line, by head, query and key."""
    lines = page.value(
        "[...document.querySelectorAll('#lines line')].map((line) => ["
        "Number(line.dataset.head), Number(line.dataset.query),"
        "Number(line.dataset.key),"
        "Number(getComputedStyle(line).strokeOpacity),"
        "getComputedStyle(line).stroke])"
    )
    for head, *_, color in lines:
        assert color == rgb(head_color(head - 1))
    opacities = {(head, query, key): opacity for head, query, key, opacity, _ in lines}
    assert len(opacities) == len(lines)
    return opacities


def rgb(color: str) -> str:
    parts = ", ".join(str(int(color[i : i + 2], 16)) for i in (1, 3, 5))
    return f"rgb({parts})"


def assert_lines(page: Page, weights_HQC, heads=(1, 2, 3), query=None, key=None):
    """Checks that the drawn lines are exactly those of these heads and of a word."""
    rounded = np.round(weights_HQC.astype("float64"), 3)
    expected = {
        (head, q, k): rounded[head - 1, q, k]
        for head in heads
        for q, k in np.ndindex(rounded.shape[1:])
        if rounded[head - 1, q, k] >= FAINTEST
        and query in (None, q)
        and key in (None, k)
    }
    assert read_lines(page) == pytest.approx(expected, abs=1e-6)


def word(side: str, index: int) -> str:
    return f'#{side} [data-index="{index}"]'


@pytest.mark.slow
def test_pointing_at_a_word_shows_only_its_lines(show) -> None:
    maps = random_maps()
    encoder = merge_sentence_words(maps).encoder
    page = show([maps])
    assert page.errors == []
    assert_lines(page, encoder.weights[R - 1])
    page.mouse(word("queries", 1))
    assert_lines(page, encoder.weights[R - 1], query=1)
    page.mouse(word("keys", 3))
    assert_lines(page, encoder.weights[R - 1], key=3)
    page.mouse("h1")
    assert_lines(page, encoder.weights[R - 1])


@pytest.mark.slow
def test_boxes_and_the_list_show_the_weights_of_a_word(show) -> None:
    maps = random_maps()
    encoder = merge_sentence_words(maps).encoder
    page = show([maps])
    page.mouse(word("queries", 2))
    opacities = page.value(
        "[...document.querySelectorAll('#keys .boxes')].map((boxes) =>"
        "[...boxes.children].map((box) => Number(getComputedStyle(box).opacity)))"
    )
    weights_HC = encoder.weights[R - 1, :, 2]
    np.testing.assert_allclose(np.transpose(opacities), weights_HC, atol=ROUNDING)
    listed = page.value(
        "[...document.querySelectorAll('#chosen tr')].map((row) =>"
        "[...row.children].map((cell) => cell.textContent))"
    )
    means = np.round(weights_HC, 3).mean(0)
    order = [key for key in np.argsort(-means) if means[key] >= FAINTEST]
    assert [token for token, _ in listed] == [encoder.keys[key] for key in order]
    for (_, percentage), key in zip(listed, order, strict=True):
        assert float(percentage.removesuffix(" %")) == pytest.approx(
            100 * means[key], abs=0.06
        )
    assert (
        page.value("document.querySelector('#chosen h2').textContent")
        == "fell looks at"
    )


@pytest.mark.slow
def test_a_click_selects_a_word_and_escape_deselects_it(show) -> None:
    maps = random_maps()
    weights = merge_sentence_words(maps).encoder.weights[R - 1]
    page = show([maps])
    page.mouse(word("keys", 2), click=True)
    page.mouse("h1")
    assert_lines(page, weights, key=2)
    page.key("Escape")
    assert_lines(page, weights)
    page.mouse(word("keys", 2), click=True)
    page.mouse(word("keys", 2), click=True)
    page.mouse("h1")
    assert_lines(page, weights)


@pytest.mark.slow
def test_every_word_can_be_reached_by_keyboard(show) -> None:
    maps = random_maps()
    weights = merge_sentence_words(maps).encoder.weights[R - 1]
    page = show([maps])
    reached = []
    for _ in range(20):
        page.key("Tab")
        name = page.value(
            "document.activeElement.classList[0] || document.activeElement.name"
        )
        reached.append(name)
        if name == "word":
            break
    # One tab stop for each group of choices, for each head, and for all words.
    assert reached == ["kind", "unit", "layer", *[""] * H, "all", "word"]
    assert_lines(page, weights, query=0)
    for key, lines in (
        ("ArrowDown", {"query": 1}),
        ("ArrowRight", {"key": 1}),
        ("End", {"key": 4}),
        ("ArrowDown", {"key": 4}),
        ("ArrowLeft", {"query": 4}),
        ("Home", {"query": 0}),
        ("ArrowUp", {"query": 0}),
    ):
        page.key(key)
        assert_lines(page, weights, **lines)
    page.key("Enter")
    page.mouse("h1", click=True)
    assert_lines(page, weights, query=0)


@pytest.mark.slow
def test_kind_unit_layer_and_heads_can_be_chosen(show) -> None:
    sentences = [random_maps(seed=8), random_maps(TARGET, SOURCE, seed=9)]
    page = show(sentences, kind="memory")
    words = [merge_sentence_words(maps) for maps in sentences]
    assert_lines(page, words[0].memory.weights[R - 1])
    page.mouse('label:has([value="decoder"])', click=True)
    page.mouse('label:has([value="subwords"])', click=True)
    page.mouse('label:has([name="layer"][value="1"])', click=True)
    page.mouse('[data-head="2"]', click=True)
    assert_lines(page, sentences[0].decoder.weights[0], heads=(1, 3))
    shown = page.value(
        "[...document.querySelectorAll('#keys .word')].map((w) => w.textContent)"
    )
    assert tuple(shown) == sentences[0].decoder.keys
    page.value(
        "(() => { const s = document.querySelector('#sentence'); s.value = 1;"
        "s.dispatchEvent(new Event('change')); })()"
    )
    assert_lines(page, sentences[1].decoder.weights[0], heads=(1, 3))
    assert (
        page.value("document.querySelector('#source').textContent")
        == "Die Äpfel fielen."
    )
    # Each small heat map of the overview selects a head of a layer.
    page.mouse('#fields [data-layer="2"][data-head="3"]', click=True)
    assert_lines(page, sentences[1].decoder.weights[1], heads=(3,))
    page.mouse("#heads .all", click=True)
    page.mouse("h1")
    assert_lines(page, sentences[1].decoder.weights[1])
    assert page.errors == []


@pytest.mark.slow
def test_the_url_fragment_sets_the_initial_choices(show) -> None:
    maps = random_maps()
    words = merge_sentence_words(maps)
    page = show([maps], hash="#kind=memory&layer=1&heads=2,3&word=fielen")
    assert_lines(page, words.memory.weights[0], heads=(2, 3), query=2)
    page = show([maps], hash="#unit=subwords&kind=decoder&heads=1")
    assert_lines(page, maps.decoder.weights[R - 1], heads=(1,))
    # Unknown values are ignored.
    page = show([maps], hash="#kind=no&unit=no&layer=9&heads=x,7&word=%3Cb%3E")
    assert_lines(page, words.encoder.weights[R - 1])
    assert page.errors == []


@pytest.mark.slow
def test_the_overview_shows_the_weights(show) -> None:
    maps = random_maps()
    alphas = show([maps]).value(
        "[...document.querySelectorAll('#fields canvas')].map((canvas) =>"
        "[...canvas.getContext('2d').getImageData("
        "0, 0, canvas.width, canvas.height).data].filter((_, i) => i % 4 === 3))"
    )
    weights = merge_sentence_words(maps).encoder.weights
    for field, expected in zip(alphas, weights.reshape(R * H, -1), strict=True):
        np.testing.assert_allclose(np.array(field) / 255, expected, atol=1.5 / 255)


@pytest.mark.slow
def test_hostile_tokens_are_shown_as_text(show) -> None:
    maps = random_maps(HOSTILE, HOSTILE)
    page = show([maps], title="</title><script>1</script>")
    page.mouse('label:has([value="subwords"])', click=True)
    for side in ("queries", "keys"):
        shown = page.value(
            f"[...document.querySelectorAll('#{side} .word')].map((w) => w.textContent)"
        )
        assert tuple(shown) == HOSTILE
    page.mouse(word("queries", 1))
    assert_lines(page, maps.encoder.weights[R - 1], query=1)
    assert page.value("document.scripts.length") == 2
    assert page.errors == []
    # Only the file itself was requested.
    assert [url.split(":")[0] for url in page.requests] == ["file"]


@pytest.mark.slow
def test_a_hundred_words_on_a_narrow_screen(show) -> None:
    words = (*(f"▁word{number}" for number in range(99)), "</s>")
    maps = random_maps((*words[:50], *HOSTILE), words)
    page = show([maps], width=360, kind="memory")
    assert page.value("document.documentElement.scrollWidth") <= 360
    page.mouse(word("queries", 99))
    assert_lines(page, merge_sentence_words(maps).memory.weights[R - 1], query=99)
    # Each word is at the height of the ends of its lines.
    off = page.value(
        "Math.max(...[...document.querySelectorAll('#lines line')].map((line) => {"
        "const beside = `#keys [data-index='${line.dataset.key}']`;"
        "const word = document.querySelector(beside).getBoundingClientRect();"
        "const y = Number(line.getAttribute('y2'))"
        " + document.querySelector('#lines').getBoundingClientRect().y;"
        "return Math.abs(y - word.y - word.height / 2); }))"
    )
    assert off < 10


def test_maps_of_any_model_are_drawn_without_tensorflow() -> None:
    code = (
        "import sys\n"
        "import t2t_keras.model.sentence_maps\n"
        "from t2t_keras.pictures import heat_map_figure, line_figure, page, words\n"
        "print({name.partition('.')[0] for name in sys.modules}"
        " & {'tensorflow', 'keras'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
