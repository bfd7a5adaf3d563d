"""Translation of paragraphs: sentence splitting, translation, reassembly.

A model is trained on sentences, so it translates a paragraph best sentence by sentence.
The spacing between sentences, and before and after them, stays as it is.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from t2t_keras.text.sentence_splitting import split_sentences

if TYPE_CHECKING:  # the flags are checked before TensorFlow is imported
    from t2t_keras.translation.translator import TranslatedLine


def translate_paragraphs(
    paragraphs: Sequence[str | bytes],
    language: str,
    translate: "Callable[[list[str]], Sequence[TranslatedLine]]",
) -> "list[TranslatedLine]":
    """Returns the translation of each paragraph, with the spacing of the original.

    A paragraph's score, log probability and number of tokens are the sums over its
    sentences.

    Args:
        paragraphs: Text without line breaks; invalid UTF-8 is replaced.
        language: Code of its language.
        translate: Translates sentences; only the best translation of each is used.
    """
    from t2t_keras.translation.translator import EMPTY, TranslatedLine

    split = [
        split_sentences(
            text if isinstance(text, str) else text.decode(errors="replace"), language
        )
        for text in paragraphs
    ]
    sentences = [sentence for parts in split for sentence, _ in parts if sentence]
    translated = iter(translate(sentences))
    lines = []
    for parts in split:
        text, total, is_cut, unmet = "", EMPTY, False, ()
        for sentence, space in parts:
            line = next(translated) if sentence else TranslatedLine((EMPTY,))
            best = line.hypotheses[0]
            text += best.text + space
            is_cut |= line.truncated
            unmet += line.unmet
            total = dataclasses.replace(
                total,
                score=total.score + best.score,
                log_prob=total.log_prob + best.log_prob,
                num_tokens=total.num_tokens + best.num_tokens,
            )
        best = dataclasses.replace(total, text=text)
        lines.append(TranslatedLine((best,), is_cut, unmet=unmet))
    return lines
