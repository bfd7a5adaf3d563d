"""Reassembly of translated paragraphs."""

import pathlib
import re

from t2t_keras.text.sentence_splitting import split_sentences
from t2t_keras.translation.paragraphs import translate_paragraphs
from t2t_keras.translation.translator import TranslatedLine, Translation


def translate(sentences):
    """Translates each sentence into itself, reversed, with its length as score."""
    return [
        TranslatedLine(
            (
                Translation(text[::-1], -1.0, -2.0, len(text)),
                Translation("second", -9.0, -9.0, 99),
            ),
            truncated="cut" in text,
        )
        for text in sentences
    ]


def test_paragraphs_are_translated_by_sentence():
    calls = []

    def spy(sentences):
        calls.append(sentences)
        return translate(sentences)

    paragraphs = ["  Ab.  Cd!\tEf ", "", " \t ", b"a\xff. Bcut", "One\r"]
    lines = translate_paragraphs(paragraphs, "en", spy)
    # All sentences at once, so that the translator can sort them by length.
    assert calls == [["Ab.", "Cd!", "Ef", "a\ufffd.", "Bcut", "One"]]
    assert [line.text for line in lines] == [
        "  .bA  !dC\tfE ",
        "",
        " \t ",
        ".\ufffda tucB",
        "enO\r",
    ]
    assert [line.truncated for line in lines] == [False, False, False, True, False]
    assert [len(line.hypotheses) for line in lines] == [1] * 5
    best = lines[0].hypotheses[0]
    assert (best.score, best.log_prob, best.num_tokens) == (-3.0, -6.0, 8)
    assert lines[2].hypotheses[0].num_tokens == 0


def test_the_example_of_the_page():
    # Its sentences are translated by a model; here, by the table of what it shows.
    page = pathlib.Path(__file__).parents[2] / "docs/data.md"
    section = page.read_text(encoding="utf-8").split("## Paragraphs")[1]
    command, output = re.findall(r"^```\n(.*?)^```", section, re.M | re.S)[:2]
    source = re.search(r"printf '(.*)' \|", command)[1].replace("\\n", "\n")
    sides = [
        [s for line in text.splitlines() for s, _ in split_sentences(line, language)]
        for text, language in ((source, "en"), (output, "de"))
    ]
    assert len(sides[0]) == 3
    table = dict(zip(*sides, strict=True))
    lines = translate_paragraphs(
        source.splitlines(),
        "en",
        lambda texts: [
            TranslatedLine((Translation(table[text], 0.0, 0.0, 1),)) for text in texts
        ],
    )
    assert "".join(f"{line.text}\n" for line in lines) == output
