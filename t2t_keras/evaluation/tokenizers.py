"""Tokenizer of sacreBLEU by language, and warnings where none tells the words.

All BLEU of the project, but the paper's own, comes from `build_bleu`.
"""

import re
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU

from t2t_keras.errors import MissingPackage, UserError, did_you_mean

# Those that need no download; also the choices of the setting --tokenize.
TOKENIZERS = ("13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none")
# Languages by the tokenizer of sacreBLEU that tells their words. Its own choice, and
# further languages of Chinese writing, which it leaves to 13a.
_TOKENIZED = (
    (("zh", "zho", "chi", "cmn", "yue", "wuu", "lzh"), "zh"),
    (("ja", "jpn"), "ja-mecab"),
    (("ko", "kor"), "ko-mecab"),
)
# All codes of the languages without spaces between words for which there is no such
# tokenizer: Thai, Lao, Khmer, Burmese, Shan, Tibetan and Dzongkha.
_UNTOKENIZED = frozenset(
    "th tha lo lao km khm my mya bur shn bo bod tib dz dzo adp".split()
)
# Letters of scripts without spaces, and how many of them a word has at most, in a mean.
_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
)
_MEAN_LENGTH = 5
_PACKAGES = (("ja-mecab", "sacrebleu[ja]"), ("ko-mecab", "sacrebleu[ko]"))


def _base_language(code: str | None) -> str:
    """Returns the code of a language without script and region.

    >>> [_base_language(code) for code in ("zh-TW", "zho_Hans", "jpn", None)]
    ['zh', 'zho', 'jpn', '']
    """
    return re.split("[-_]", (code or "").lower())[0]


def tokenizer_for(language: str | None) -> str:
    """Returns the name of sacreBLEU's tokenizer for a language, 13a for most.

    Args:
        language: Code such as zh, zh-TW, zho_Hans or jpn; None if it is not known.
    """
    base = _base_language(language)
    return next((name for codes, name in _TOKENIZED if base in codes), "13a")


def check_tokenizer(name: str) -> None:
    """Raises `UserError` if there is no such tokenizer."""
    if name not in TOKENIZERS:
        raise UserError(
            f"--tokenize must be one of {', '.join(TOKENIZERS)}. Received: {name}."
            f"{did_you_mean(name, TOKENIZERS)}"
        )


def has_no_spaces(language: str | None) -> bool:
    """Returns whether a language is known to be written without spaces between words.

    Korean has spaces; its tokenizer tells the parts of words.
    """
    return tokenizer_for(language) in ("zh", "ja-mecab") or (
        _base_language(language) in _UNTOKENIZED
    )


def bleu_warnings(
    language: str | None, tokenize: str, references: Sequence[str] = ()
) -> list[str]:
    """Returns a warning if BLEU would take whole phrases for words, or nothing.

    Args:
        language: Code of the target language; None if it is not known.
        tokenize: Name of sacreBLEU's tokenizer.
        references: Some references, which may show what the language does not.
    """
    right = tokenizer_for(language)
    if tokenize in ("char", "none") or tokenize == right != "13a":
        return []
    if has_no_spaces(language):
        subject = f"the language {language!r} is"
    elif tokenize in ("13a", "intl") and _lack_spaces(references):
        subject = "the references are"
    else:
        return []
    advice = "--tokenize=char counts characters instead, and chrF needs no words."
    if right != "13a":
        advice = f"--tokenize={right} separates them."
    elif not has_no_spaces(language):
        advice = f"Give --target_language if it is zh or ja. {advice}"
    return [
        f"BLEU by the tokenizer {tokenize} takes whole phrases for words: {subject} "
        f"written without spaces between words. {advice}"
    ]


def _lack_spaces(lines: Sequence[str]) -> bool:
    """Returns whether most text is of a script without spaces, and has none."""
    text = " ".join(lines)
    return len(_SPACELESS.findall(text)) > _MEAN_LENGTH * len(text.split())


def build_bleu(tokenize: str, **options: Any) -> BLEU:
    """Returns sacreBLEU's metric with a tokenizer.

    Args:
        tokenize: Name of the tokenizer.
        **options: Further arguments of sacreBLEU's class.

    Raises:
        MissingPackage: If the tokenizer needs packages that are not installed. There is
            no other tokenizer instead: a score must not depend on the machine.
    """
    try:
        return BLEU(tokenize=tokenize, **options)
    except (RuntimeError, AssertionError) as error:  # also of another dictionary
        package = dict(_PACKAGES).get(tokenize)
        if package is None:
            raise
        raise MissingPackage(
            f"BLEU by sacreBLEU's tokenizer {tokenize} needs packages that are missing "
            f"or cannot be used. Install them: pip install '{package}'. Or give "
            "--tokenize=char, for BLEU of characters. Received: "
            f"{' '.join(str(error).split())}"
        ) from error
