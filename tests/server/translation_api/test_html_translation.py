"""Translation of HTML: tags in place or with their words, none lost or invented."""

import collections
import random
import re
import time
from html.parser import HTMLParser

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.server.http.requests import HttpError
from t2t_keras.server.translation_api.attention_links import Alignment, find_words
from t2t_keras.server.translation_api.html_runs import Node
from t2t_keras.server.translation_api.html_tokens import read_tokens
from t2t_keras.server.translation_api.html_translation import translate_documents
from t2t_keras.server.translation_api.sentence_translation import SentenceTranslator
from t2t_keras.server.translation_api.tag_placement import Element, place_tags
from t2t_keras.server.workers import CancelToken
from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.client.translation_client import CrossAttention
from tests.server.translation_api import fake_backend
from tests.server.translation_api.fake_backend import EN_DE, FakeBackend

# A document and its translation by `translate_words`, which reverses a sentence.
EXAMPLES = (
    ("<p>a <b>b</b> c</p>", "<p>+c <b>+b</b> +a</p>"),
    ("<b>a</b> b", "+b <b>+a</b>"),
    ("<p><b>a b</b></p>", "<p><b>+b +a</b></p>"),
    # The white space at a tag is outside of the words.
    ("a <b> b </b> c", "+c <b>+b</b> +a"),
    ("<i>a <u>b</u></i> c <s>d</s>", "<s>+d</s> +c <i><u>+b</u> +a</i>"),
    # Blocks, line breaks and what is not translated separate sentences.
    ("a<br>b c<hr/>d", "+a<br>+c +b<hr/>+d"),
    ("<ul><li>a b<li>c d</ul>", "<ul><li>+b +a<li>+d +c</ul>"),
    ("a b <code>c d</code> e f", "+b +a <code>c d</code> +f +e"),
    ('a <i translate="no">b</i> c', '+a <i translate="no">b</i> +c'),
    ("a <i translate=NO >b</i> c", "+a <i translate=NO >b</i> +c"),
    ("<p title=\"translate='no'\">a b</p>", "<p title=\"translate='no'\">+b +a</p>"),
    ("<p class=a-notranslate>a b</p>", "<p class=a-notranslate>+b +a</p>"),
    (
        "a <i class='x notranslate'>b <i>c</i></i> d",
        "+a <i class='x notranslate'>b <i>c</i></i> +d",
    ),
    ("<script>a < b</script>c d", "<script>a < b</script>+d +c"),
    ("<style>p {}</style><!-- a b -->", "<style>p {}</style><!-- a b -->"),
    ("<title>a b</title>", "<title>+b +a</title>"),
    # Comments as browsers read them, and a script that cannot end itself.
    ("<!-->a b", "<!-->+b +a"),
    ("<!--->a b", "<!--->+b +a"),
    ("<!-- a --!>b c", "<!-- a --!>+c +b"),
    ("<script/>a b</script>c d", "<script/>a b</script>+d +c"),
    # Sentences.
    ("Aa bb. <i>Cc dd.</i> E", "+bb. +Aa <i>+dd. +Cc</i> +E"),
    ("<i>Aa bb. Cc dd.</i>", "<i>+bb. +Aa +dd. +Cc</i>"),
    ("<pre>a b\nc d</pre>", "<pre>+b +a\n+d +c</pre>"),
    ("x</pre><pre>a b\nc d</pre>", "+x</pre><pre>+b +a\n+d +c</pre>"),
    ("a\n  b", "+b +a"),
    ("Aa. <b>Bb. Cc</b>", "+Aa. <b>+Bb. +Cc</b>"),
    # An element across two sentences ends one and begins the other.
    ("Aa <b>bb. Cc</b> dd", "<b>+bb. +Aa </b>+dd +Cc"),
    # References.
    (
        "a&nbsp;&lt;b&gt; &amp;c &quot;d&quot; &eacute;",
        '+é +"d" +&amp;c +&lt;b&gt; +a',
    ),
    ("x &#x3c; y", "+y +&lt; +x"),
    ("Aa bb.&nbsp; Cc", "+bb. +Aa&nbsp; +Cc"),
    # Tags without an end, and an end without a tag.
    ("<img src=x> a b", "<img src=x> +b +a"),
    ("<b>a b", "<b>+b +a"),
    ("a b</b>", "+b +a</b>"),
    ("<a>a</i> b</a>", "<a>+b +a</i></a>"),
    ("<a><b>a b</a>", "<a><b>+b +a</a>"),
    # Texts that only look like one word.
    ("<a>a b</a><a>c d</a>", "<a>+b +a</a><a>+d +c</a>"),
    ("<i><a>a b</a></i><a>c d</a> e", "<i><a>+b +a</a></i>+e <a>+d +c</a>"),
    ("<b>a b</b><i>Cc d</i>", "<b>+b +a</b><i>+d +Cc</i>"),
    ("aa bb.<i>Cc dd.</i>Ee f", "+bb. +aa<i>+dd. +Cc</i>+f +Ee"),
    ("<label>a b</label><input>c d", "<label>+b +a</label><input>+d +c"),
    # A word with tags in it.
    ("a <b>b</b>c d", "+d <b>+bc</b> +a"),
    ("<b>U.</b>S. a", "+a <b>+U.S.</b>"),
    # Notes and exponents belong to the word before.
    ("a b<sup>2</sup> c", "+c +b<sup>2</sup> +a"),
    ("a<sup><a href=x>[1]</a></sup> b", "+b +a<sup><a href=x>[1]</a></sup>"),
    ("H<sub>2</sub>O a", "+a <sub>+H2O</sub>"),
    ("Aa bb.<sup>2</sup> Cc", "+bb. +Aa<sup>2</sup> +Cc"),
    ("a b<sup>&dagger;</sup> c", "+c +b<sup>&dagger;</sup> +a"),
    ("a <sup>1</sup> b c.", "+c. <sup>1</sup>+b +a"),
    ("a <sub><a href=x>1</a></sub> b", "<sub><a href=x>1</a></sub>+b +a"),
    ("a <a href=x><sup>[1]</sup></a> b", "<a href=x><sup>[1]</sup></a>+b +a"),
    ("a b<img> c", "+c +b<img> +a"),
    # Nothing to translate.
    ("<p> &nbsp; </p>", "<p> &nbsp; </p>"),
    ("<p>&mdash;</p>", "<p>&mdash;</p>"),
    ("", ""),
)


def translate(*documents, backend=None):
    translator = SentenceTranslator(
        backend or FakeBackend(), EN_DE[0], 32, 1, CancelToken()
    )
    return translate_documents(documents, "en", translator)


@pytest.mark.parametrize(("document", "expected"), EXAMPLES)
def test_documents_translated_by_hand(document, expected):
    assert translate(document) == [expected]


def test_sentences_without_spaces_between_them_get_one(monkeypatch):
    monkeypatch.setattr(fake_backend, "translate_words", lambda text: f"{len(text)}.")
    document = "<p>一二。<b>三四五。</b>六。</p>七。<br>八。\n九十。"
    assert translate(document) == ["<p>3. <b>4. </b>2.</p>2.<br>2.\n3."]


def test_several_documents_are_translated_in_one_call():
    backend = FakeBackend()
    assert translate("<p>a b</p>", "", "c", backend=backend) == [
        "<p>+b +a</p>",
        "",
        "+c",
    ]
    assert backend.calls == [("translate", "translate", ("a b", "c"))]


def test_attention_is_asked_for_only_where_tags_move():
    backend = FakeBackend()
    translate("<p><b>a b</b></p><p>c <i>d</i></p>", backend=backend)
    assert backend.sentences("attention") == ["c d"]


def test_a_model_without_attention_places_tags_in_order():
    class Without(FakeBackend):
        def attention(self, model, sources, targets):
            raise ServerError("no signature", self.code)

    backend = Without()
    backend.code = grpc.StatusCode.FAILED_PRECONDITION
    assert translate("a <b>b</b> c d", backend=backend) == ["+d <b>+c</b> +b +a"]
    backend.code = grpc.StatusCode.UNAVAILABLE
    with pytest.raises(ServerError):
        translate("a <b>b</b>", backend=backend)


def test_nesting_has_a_limit():
    deep = "<i>" * 101 + "a b" + "</i>" * 101
    for document in (deep, "</b>" * 101 + "a b"):
        with pytest.raises(HttpError, match=r"nested too deeply \(limit: 100\)"):
            translate(document)
    document = "<i>" * 100 + "a <b></b> b" + "</i>" * 100
    assert "+b" in translate(document.replace("<b></b> ", ""))[0]


class Tree(HTMLParser):
    """Parser that collects each element with its ancestors, and each word."""

    VOID = ("br", "img")

    def __init__(self, document):
        super().__init__()
        self.path: list[str] = []
        self.elements = collections.Counter()
        self.comments = collections.Counter()
        self.words = collections.Counter()
        self.feed(document)
        self.close()
        assert self.path == [], document

    def handle_starttag(self, tag, attrs):
        name = f"{tag}{attrs}"
        self.elements[(*self.path, name)] += 1
        if tag not in self.VOID:
            self.path.append(name)

    def handle_endtag(self, tag):
        assert self.path and self.path.pop().startswith(f"{tag}["), tag

    def handle_data(self, data):
        self.words.update(data.split())

    def handle_comment(self, data):
        self.comments[data] += 1


class RandomAttention(FakeBackend):
    """Attention that has nothing to do with the words."""

    def __init__(self, seed):
        super().__init__()
        self._generator = random.Random(seed)

    def attention(self, model, sources, targets):
        answers = super().attention(model, sources, targets)
        return [
            CrossAttention(
                each.source_tokens,
                each.target_tokens,
                [
                    [
                        [
                            [self._generator.random() for _ in each.source_tokens]
                            for _ in each.target_tokens
                        ]
                    ]
                ],
                self._generator.random() < 0.2,
            )
            for each in answers
        ]


TEXTS = st.lists(
    st.sampled_from(["w", "W", "v.", "u!", "x-y", " ", "\n", "&amp;", "é", "…"]),
    max_size=4,
).map(lambda parts: " ".join(parts))
LEAVES = st.one_of(
    TEXTS,
    st.sampled_from(["<br>", "<img src='a>b'>", "<!-- w -->", "<code>w</code>"]),
    st.just("w"),
)


def _elements(children):
    names = st.sampled_from(["b", "i", "a", "p", "div", "span", "li"])
    parts = st.lists(children, max_size=4)
    return st.builds(
        lambda name, number, inside: (
            f'<{name} id="{number}">{"".join(inside)}</{name}>'
        ),
        names,
        st.integers(0, 9),
        parts,
    )


HTML = st.lists(st.recursive(LEAVES, _elements, max_leaves=12), max_size=5).map("".join)


WORD = re.compile(r"[wWvux]\d+")
UNTRANSLATED = re.compile(
    r"<code>.*?</code>|<!--.*?-->|<(?:[^>'\"]|'[^']*'|\"[^\"]*\")*>"
)


def _numbered(document):
    """Returns a document in which each word occurs once."""
    numbers = iter(range(10**6))
    return re.sub(
        r"(?<=>)[^<]+|^[^<]+",
        lambda text: re.sub(
            r"\b(?<!&)[wWvux]\b", lambda word: f"{word[0]}{next(numbers)}", text[0]
        ),
        document,
    )


@given(HTML, st.integers(0, 9))
def test_elements_keep_their_nesting_and_each_text_is_translated_once(document, seed):
    document = _numbered(document)
    backend = RandomAttention(seed)
    (translation,) = translate(document, backend=backend)
    before, after = Tree(document), Tree(translation)
    assert after.elements == before.elements
    assert after.comments == before.comments
    sent = " ".join(backend.sentences())
    assert not re.search("[<>]", sent)
    words = collections.Counter(WORD.findall(UNTRANSLATED.sub("", document)))
    assert max(words.values(), default=1) == 1
    assert collections.Counter(WORD.findall(sent)) == words
    assert collections.Counter(WORD.findall(UNTRANSLATED.sub("", translation))) == words
    for kept in re.findall("<code>.*?</code>", document):
        assert kept in translation


PARTS = ("<a>", "</a>", "<b c='>'>", "</b>", "<p>", "</p>", "<!-- w -->", "<br>", "w ")
ODD = (". ", "W", " ", "\n", "<", ">", "&", "&lt;", "<code>", "</code>", "<w", "'", "/")


@given(
    st.lists(st.sampled_from((*PARTS, *PARTS, *ODD)), min_size=5, max_size=25),
    st.integers(0, 9),
)
def test_html_that_is_not_well_formed_loses_no_tag(parts, seed):
    document = "".join(parts)
    (translation,) = translate(document, backend=RandomAttention(seed))

    def tags(text):
        return collections.Counter(
            token.raw for token in read_tokens(text) if token.kind != "text"
        )

    assert tags(translation) == tags(document)


def test_many_sentences_and_tags_take_linear_time():
    class Cut(FakeBackend):
        def attention(self, model, sources, targets):
            return [CrossAttention((), (), [], True) for _ in sources]

    start = time.process_time()
    for unit in (
        "Aa. <b>x</b> ",
        "a <b>b</b> ",
        "a <i></i>",
        "</i>a<p>",
        "a <img> b. ",
    ):
        translate(f"a {unit * 1500} b", backend=Cut())
    translate(f"a {'<img>' * 20_000} b", backend=Cut())
    # Quadratic time would be minutes.
    assert time.process_time() - start < 30


def test_a_full_stop_that_attends_to_the_last_word_stays_outside():
    source, translation = "a b c.", "A B C."
    links = [0, 1, 2, 2]
    alignment = Alignment(find_words(source), find_words(translation), links)
    node = Node(4, 5, "<b>", "</b>")
    for words, expected in (
        (range(2, 3), "A B <b>C</b>."),
        (range(1, 3), "A <b>B C</b>."),
        (range(2, 4), "A B <b>C.</b>"),
    ):
        placed = place_tags(source, translation, [Element(node, words)], alignment)
        assert placed == expected


def test_of_words_linked_to_an_element_that_with_more_attention_is_in_it():
    source, translation = "a bold word", "ein Wort fett"
    little, much, other = [0.2, 0.4, 0.3], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]
    for weights, expected in (
        ([little, other, much], "ein Wort <b>fett</b>"),
        ([much, other, little], "<b>ein</b> Wort fett"),
        ([other, little, much], "ein <b>Wort fett</b>"),
    ):
        alignment = Alignment(
            find_words(source),
            find_words(translation),
            np.argmax(weights, axis=1).tolist(),
            np.array(weights),
        )
        element = Element(Node(2, 6, "<b>", "</b>"), range(1, 2))
        assert place_tags(source, translation, [element], alignment) == expected
