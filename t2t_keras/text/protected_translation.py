"""Translation of texts whose placeholders, tags and addresses stay as they are.

First the model translates the text as it is, which is best where it has learned to copy
such spans. Where it does not keep each of them once, it translates the text without
them, and they return to their places by links between words.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from t2t_keras.text.protected_spans import find_spans, keeps_spans
from t2t_keras.text.protected_text import Links, ProtectedText

Text = TypeVar("Text", str, bytes, str | bytes)
Answer = TypeVar("Answer")


class Backend(Protocol[Answer]):
    """Translator of some kind, with answers of its own kind."""

    def translate(
        self, numbers: Sequence[int], texts: Sequence[str | bytes]
    ) -> Sequence[Answer]:
        """Returns the answer to each text; the numbers are those of the whole list."""
        ...

    def link(self, pairs: Sequence[tuple[str, str]]) -> Sequence[Links]:
        """Returns the links between the words of each pair; none if not known."""
        ...

    def texts(self, answer: Answer) -> list[str]:
        """Returns the translations in an answer."""
        ...

    def with_texts(self, answer: Answer, texts: list[str]) -> Answer:
        """Returns an answer with other translations."""
        ...


def translate_protected(
    texts: Sequence[str | bytes], backend: Backend[Answer]
) -> list[Answer]:
    """Returns the answer to each text, with its protected spans once each.

    Texts without such spans are translated as without protection.

    Args:
        texts: Texts; bytes are UTF-8, and replaced where they are not.
        backend: Its translator.
    """
    answers = list(backend.translate(range(len(texts)), texts))
    lost = []
    for number, text in enumerate(texts):
        source = text if isinstance(text, str) else text.decode(errors="replace")
        if find_spans(source) and not all(
            keeps_spans(source, each) for each in backend.texts(answers[number])
        ):
            lost.append((number, ProtectedText(source)))
    if not lost:
        return answers
    rests = [protected.rest for _, protected in lost]
    again = backend.translate([number for number, _ in lost], rests)
    pairs = [
        (rest, translation)
        for rest, answer in zip(rests, again, strict=True)
        for translation in backend.texts(answer)
        if rest
    ]
    links = iter(backend.link(pairs))
    for (number, protected), answer in zip(lost, again, strict=True):
        restored = [
            protected.restore(each, next(links) if protected.rest else ())
            for each in backend.texts(answer)
        ]
        answers[number] = backend.with_texts(answer, restored)
    return answers
