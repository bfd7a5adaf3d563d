"""Texts without their protected spans, and the places of those in a translation."""

import random

from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.text.protected_spans import find_spans, keeps_spans
from t2t_keras.text.protected_text import ProtectedText
from t2t_keras.text.protected_translation import translate_protected

PIECES = st.sampled_from(
    [
        *"{a} %s <1> </1> <br/> https://a.org/x b@c.de".split(),
        *"dog Haus 你好 3 . , ( ) x".split(),
        *' \u00a0  "',
        "{{ d e }}",
    ]
)
TEXT = st.lists(PIECES, max_size=14).map("".join)


def identity(text: str) -> list[tuple[int, int]]:
    return [(number, number) for number in range(len(text.split()))]


def test_spans_return_to_where_they_were():
    for text, rest in (
        ("The dog {name} sleeps.", "The dog sleeps."),
        ("Hello {name}, come to %s!", "Hello, come to!"),
        ("{name}, come here!", "come here!"),
        ("Click <1>here</1>, or <b>not here</b>.", "Click here, or not here."),
        ('The file "{a}", {b} ({c}) is new.', "The file is new."),
        ("A {a}, {b} and {c}", "A and"),
        ("({a} small) dogs {b}.", "(small) dogs."),
        ("See file_{n}.txt or %s's dog.", "See or dog."),
        ("See: www.a.org.", "See:"),
        ("See {{ user name }} of it.", "See of it."),
        ("A line<br/> and more", "A line and more"),
        ("A dog '{a}", "A dog"),
        ("{a}", ""),
        ("{a}: %d!", ""),
    ):
        protected = ProtectedText(text)
        assert protected.rest == rest
        assert protected.restore(rest, identity(rest)) == text


@given(text=TEXT)
def test_no_character_is_lost_or_doubled(text):
    """The rest as its own translation has them all, if not all in their places."""
    protected = ProtectedText(text)
    restored = protected.restore(protected.rest, identity(protected.rest))
    assert sorted("".join(restored.split())) == sorted("".join(text.split()))


def test_links_decide_where_spans_are():
    protected = ProtectedText("I have {n} red <b>apples</b> here.")
    assert protected.rest == "I have red apples here."
    # Words of "Hier sind rote Äpfel meine.", from "here, I/have, red, apples".
    links = [(4, 0), (1, 1), (2, 2), (3, 3), (0, 4)]
    found = protected.restore("Hier sind rote Äpfel meine.", links)
    assert found == "Hier sind {n} rote <b>Äpfel</b> meine."
    # A closing tag stays behind its opening one.
    protected = ProtectedText("<b>red apples</b> here")
    found = protected.restore("Äpfel rote hier", [(0, 1), (1, 0), (2, 2)])
    assert found.index("<b>") < found.index("</b>")


def test_spans_in_the_translation_of_the_rest_are_removed():
    protected = ProtectedText("The {a} dog")
    restored = protected.restore("Der {a} Hund %s", [(0, 0), (1, 1)])
    assert sorted(restored.split()) == ["Der", "Hund", "{a}"]


@given(text=TEXT, translation=TEXT, seed=st.integers(0, 999))
def test_every_span_is_there_once_whatever_the_translation(text, translation, seed):
    protected = ProtectedText(text)
    draw = random.Random(seed)
    links = [(draw.randrange(9), draw.randrange(9)) for _ in range(6)]
    restored = protected.restore(translation, links)
    assert keeps_spans(text, restored)
    if not find_spans(translation) and protected.rest:
        words = "".join(translation.split())
        left = "".join(restored.split())
        # No letter of the translation is lost.
        assert all(left.count(each) >= words.count(each) for each in words)


class UpperCase:
    """Backend that writes capitals, but copies the first span of a line, if at all."""

    def __init__(self, copies: bool):
        self.copies = copies
        self.calls: list[tuple[list[int], list[str | bytes]]] = []

    def translate(self, numbers, texts):
        self.calls.append((list(numbers), list(texts)))
        return [[self._translated(each), "second"] for each in texts]

    def _translated(self, text):
        if isinstance(text, bytes):
            text = text.decode(errors="replace")
        return text if self.copies else text.upper()

    def link(self, pairs):
        return [identity(source) for source, _ in pairs]

    def texts(self, answer):
        return answer

    def with_texts(self, answer, texts):
        assert len(answer) == len(texts)
        return texts


def test_only_lines_that_lose_a_span_are_translated_again():
    backend = UpperCase(copies=False)
    texts = ["a dog", "a {x} dog", b"a \xff dog", b"the {y} \xff", "%s"]
    answers = translate_protected(texts, backend)
    assert [each[0] for each in answers] == [
        "A DOG", "A {x} DOG", "A \ufffd DOG", "THE {y} \ufffd", "%s",
    ]  # fmt: skip
    # Lines without a span reach the model as they are, and once.
    assert backend.calls == [
        ([0, 1, 2, 3, 4], texts),
        ([1, 3, 4], ["a dog", "the \ufffd", ""]),
    ]
    assert sorted(answers[1][1].split()) == ["second", "{x}"]


def test_a_line_that_keeps_its_spans_is_not_translated_again():
    class Copies(UpperCase):
        def translate(self, numbers, texts):
            self.calls.append((list(numbers), list(texts)))
            return [[each] for each in texts]

    backend = Copies(copies=True)
    assert translate_protected(["a {x} dog"], backend) == [["a {x} dog"]]
    assert len(backend.calls) == 1
