"""Sentence splitting of paragraphs."""

import random
import time

from t2t_keras.text.normalization import normalize
from t2t_keras.text.sentence_splitting import split_sentences

# A paragraph with "|" after each sentence and its spacing.
PARAGRAPHS = (
    ("en", "Dr. Smith met Mr. Weber.  |He left! |Really?"),
    ("en", "It cost $3.50. |Then 5 people came. |3 left."),
    ("en", "See No. 5 on p. 12. |She said no. |He agreed."),
    ("en", "J. S. Bach wrote it. |It is old."),
    ("en", '"Go away!" he said. |"Why?" |(Nobody knew.) |Then he went.'),
    ("en", "Wait... |What? |That one, e.g. Anna, i.e. Me."),
    ("en", "Version 2.0 is here. |At example.com it is. |OK."),
    ("en", "Am 3. |Oktober"),
    ("de", "Am 3. Oktober kam Hr. Müller. |Er blieb, z. B. im Hotel. |Gut!"),
    ("de", "Er sagte: „Guten Tag.“ |Dann ging er."),
    ("fr", "M. Dupont est là. |Il parle à Mme. Curie. |Voilà ! |Bon."),
    ("es", "¿Qué tal? |¡Bien! |El Sr. López vino."),
    ("zh", "狗在睡觉。|猫呢\uff1f|不知道\uff01 |好。"),
    ("ja", "「犬です。」|はい。"),
    # References to notes, Markdown, emoji, and marks of other scripts.
    ("en", "It sleeps.[1] |She left.[12][a] |He is here.¹ |Yes!\U0001f600\ufe0f |No."),
    ("en", "**It sleeps.** |_She left._ |`OK.` |Then* *there. |See [3]. |Or [A note]."),
    ("en", "1. |The dog. |2. |The cat."),
    ("ur", "وہ آیا\u06d4 |وہ گیا؟ |ہاں\u06d4"),
    ("hy", "Նա եկավ\u0589 |Նա գնաց\u0589"),
    ("zh", "狗在睡觉。[1]|猫呢\uff1f😀|不知道\uff01"),
    ("xx", "Prof. A. Bel. |St. Gallen is far."),
    ("en", "no capital. here"),
    ("en", " \t|One. |Two.\u00a0\u3000|Three.\r"),
    ("en", "\u2028 "),
    ("en", ""),
)


def joined(parts):
    return "".join(sentence + space for sentence, space in parts)


def test_paragraphs_split_by_hand():
    for language, marked in PARAGRAPHS:
        paragraph = marked.replace("|", "")
        parts = split_sentences(paragraph, language)
        assert "|".join(s + space for s, space in parts) == marked, marked


def test_no_character_is_lost():
    generator = random.Random(5)
    alphabet = "ab A. .!?\t\u00a0é。\"'\u201c(3\u2028\x1c\u0301🙂\u2581\r"
    for _ in range(3000):
        paragraph = "".join(generator.choices(alphabet, k=generator.randrange(40)))
        for language in ("en", "de", "zh"):
            parts = split_sentences(paragraph, language)
            assert joined(parts) == paragraph
            for number, (sentence, space) in enumerate(parts):
                assert normalize(space) == ""
                assert sentence or number == 0, paragraph
                assert sentence == sentence.strip(" \t\u00a0\u2028\r\u2581\x1c")


def test_long_runs_take_linear_time():
    start = time.process_time()
    for unit in (".", ". ", ".)", "a. ", '"', "? a "):
        paragraph = unit * (200_000 // len(unit))
        assert joined(split_sentences(paragraph, "en")) == paragraph
    # Quadratic time would be minutes.
    assert time.process_time() - start < 20
