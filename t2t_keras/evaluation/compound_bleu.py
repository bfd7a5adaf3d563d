"""Tokenized BLEU, the paper's metric: Moses tokens, hyphenated compounds split.

The scores of Tables 2 and 3 of the paper come from three Perl scripts in a row: the
Moses tokenizer, a substitution that splits compounds (English-German only) and
`multi-bleu.perl`. These are the same three steps without Perl. The score is 0.7 to 1.5
above sacreBLEU on the same German text and must not be compared with it; ADR 0012 has
the reasons and every choice that the scripts leave open.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from sacrebleu.metrics.base import Signature
from sacrebleu.metrics.bleu import BLEU, BLEUScore

from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import check_sentence_pairs
from t2t_keras.evaluation.tokenizers import has_no_spaces

NO_SPACES = "the language {!r} is written without spaces between words."
# Unicode lists them in a row: four single quotes, then four double ones.
_SINGLE_QUOTE = re.compile("[\u2018-\u201b]")
_DOUBLE_QUOTE = re.compile("[\u201c-\u201f]")


@dataclass(frozen=True)
class TokenizedBleu:
    """Score of a set of translations by the paper's metric.

    Attributes:
        bleu: Corpus BLEU-4, 0 to 100.
        signature: Settings of `bleu` in the style of sacreBLEU's signatures, but
            beginning with `multi-bleu` so that it is not mistaken for one.
        precisions: Precisions of n-grams of 1, 2, 3 and 4 tokens, 0 to 100 each.
        brevity_penalty: Factor on the mean of the precisions, 0 to 1.
        hypothesis_length: Number of tokens in the translations, after splitting.
        reference_length: Number of tokens in the references, after splitting.
    """

    bleu: float
    signature: str
    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int


def tokenized_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str,
    split_compounds: bool,
    ascii_quotes: bool = False,
) -> TokenizedBleu:
    """Returns BLEU as the paper computed it, cased and without smoothing.

    Args:
        hypotheses: The translations as plain text, one sentence each. They must
            not be tokenized yet: tokens would be escaped twice.
        references: The reference of `hypotheses[i]` at the same index.
        language: Code of the target language, such as `de`. It determines how Moses
            treats apostrophes and which abbreviations keep their period.
            One of `moses_languages()`.
        split_compounds: Whether `a-b` becomes three tokens. True for the paper's
            English-German, False for its English-French.
        ascii_quotes: Whether curly and low quotes on both sides are first replaced by
            straight ones. The newstest2014 reference of Tensor2Tensor's authors had
            straight quotes only, so True comes closest to the paper's scores if the
            references have others. The plain scripts do not replace quotes: False.

    Returns:
        The score of the whole set. It is 0 if no four tokens in a row match.

    Raises:
        UserError: If there is no sentence, or not one reference per translation,
            or Moses has no rules for `language`.
        ValueError: If either side is a single string.

    Source: section 6.1 of the paper, and Tensor2Tensor's `get_ende_bleu.sh`;
    Papineni et al., "BLEU: a Method for Automatic Evaluation" (2002).

    >>> result = tokenized_bleu(
    ...     ["Das ist ein S-Bahn-Zug."],
    ...     ["Das ist ein U-Bahn-Zug."],
    ...     language="de",
    ...     split_compounds=True,
    ... )
    >>> result.hypothesis_length, round(result.precisions[0], 2)
    (9, 88.89)
    """
    check_sentence_pairs(hypotheses, references)
    metric = MosesBleu(
        language, split_compounds=split_compounds, ascii_quotes=ascii_quotes
    )
    score = metric.corpus_score(hypotheses, [references])
    return TokenizedBleu(
        bleu=score.score,
        signature=f"{score.name}|{metric.get_signature()}",
        precisions=tuple(score.precisions),
        brevity_penalty=score.bp,
        hypothesis_length=score.sys_len,
        reference_length=score.ref_len,
    )


class _MosesSignature(Signature):
    """Signature of `MosesBleu`: sacreBLEU's fields, and every choice of the scripts."""

    def __init__(self, args: dict[str, Any]):
        super().__init__(args)
        choices = {
            "case": "lc" if args["lowercase"] else "mixed",
            "tok": f"moses-{args['language']}",
            "compounds": "split" if args["split_compounds"] else "kept",
            "quotes": "ascii" if args["ascii_quotes"] else "kept",
            # Earlier releases had no such step, and no such field.
            "punct": "replaced" if args["replace_punctuation"] else None,
            "smooth": "none",
        }
        for name, value in choices.items():
            self.update(name, value)
        moses = f"sacremoses-{version('sacremoses')}"
        self.update("version", f"{moses}+sacrebleu-{version('sacrebleu')}")


class MosesBleu(BLEU):
    """The paper's BLEU as one of sacreBLEU's metrics.

    So its intervals, paired tests and multiple references are sacreBLEU's own code.

    Args:
        language: See `tokenized_bleu`, as for `split_compounds` and `ascii_quotes`.
        replace_punctuation: Whether Unicode punctuation is replaced by ASCII's first,
            as by Moses' replace-unicode-punctuation.perl, which Tensor2Tensor's script
            has run since April 2018. Both sides are changed: the script's own reference
            had ASCII punctuation.
        lowercase: Whether tokens are lowercased, like `multi-bleu.perl -lc`.
        references: The references of all lines, once for each set of references.

    Raises:
        UserError: If Moses has no rules for `language`.
    """

    _SIGNATURE_TYPE = _MosesSignature

    def __init__(
        self,
        language: str,
        *,
        split_compounds: bool,
        ascii_quotes: bool = False,
        replace_punctuation: bool = False,
        lowercase: bool = False,
        references: Sequence[Sequence[str]] | None = None,
    ):
        from sacremoses import MosesTokenizer  # takes a second; training needs none

        _check_language(language)
        self.language = language
        self.split_compounds = split_compounds
        self.ascii_quotes = ascii_quotes
        self.replace_punctuation = replace_punctuation
        self._moses = MosesTokenizer(language)
        # `force` keeps sacreBLEU from warning that its input looks tokenized. It is.
        super().__init__(
            lowercase=lowercase,
            tokenize="none",
            smooth_method="none",
            force=True,
            references=references,
        )

    def _preprocess_segment(self, sent: str) -> str:
        """Returns the tokens of a sentence, separated by spaces."""
        if self.replace_punctuation:
            sent = replace_unicode_punctuation(sent)
        if self.ascii_quotes:
            sent = straighten_quotes(sent)
        # Escaped (& as &amp;), because the script does not turn escaping off. Escaping
        # comes last and maps no two tokens to one, so it cannot change the score.
        line = str(self._moses.tokenize(sent, return_str=True))
        if self.split_compounds:
            line = split_at_hyphens(line)
        return line.lower() if self.lowercase else line

    def _compute_score_from_stats(self, stats: list[int]) -> BLEUScore:
        score = super()._compute_score_from_stats(stats)
        score.name = "multi-bleu"  # lest it be mistaken for sacreBLEU's
        return score


def split_at_hyphens(line: str) -> str:
    """Returns a line of tokens in which hyphenated compounds are split.

    A hyphen between two other characters becomes a token of its own, so that a
    compound with one wrong part still matches in the rest. Matches go from left to
    right and do not overlap, as in Perl's `s///g`: a part of a single letter is
    consumed by the hyphen before it and hides the one after. Perl works on bytes here,
    so this is true of ASCII letters only: of any other letter the first byte is
    consumed, and its last byte remains for the hyphen after.

    >>> split_at_hyphens("Nord-Süd-Gefälle - S-Bahn")
    'Nord ##AT##-##AT## Süd ##AT##-##AT## Gefälle - S ##AT##-##AT## Bahn'
    >>> split_at_hyphens("a-b-c")
    'a ##AT##-##AT## b-c'
    >>> split_at_hyphens("vis-à-vis")
    'vis ##AT##-##AT## à ##AT##-##AT## vis'
    """
    split = re.sub(rb"(\S)-(\S)", rb"\1 ##AT##-##AT## \2", line.encode())
    return split.decode()


def straighten_quotes(text: str) -> str:
    """Returns the text with the quotes U+2018 to U+201F replaced by ' and ".

    French and German guillemets stay: no published references had them replaced.
    """
    return _DOUBLE_QUOTE.sub('"', _SINGLE_QUOTE.sub("'", text))


def replace_unicode_punctuation(text: str) -> str:
    """Returns the text after Moses' replace-unicode-punctuation.perl.

    It replaces East Asian punctuation and digits, the quotes U+2019, U+201C and U+201D,
    and the ellipsis; the German low quote and all dashes stay.

    >>> replace_unicode_punctuation("„Ja“, sagte sie … und ging —")
    '„Ja", sagte sie ... und ging —'
    """
    from sacremoses import MosesPunctNormalizer

    return MosesPunctNormalizer().replace_unicode_punct(text)


def moses_languages() -> tuple[str, ...]:
    """Returns the codes of the languages whose words Moses separates, sorted.

    For Chinese it has abbreviations, but it separates words at spaces alone.
    """
    from sacremoses.corpus import NonbreakingPrefixes

    languages = set(NonbreakingPrefixes().available_langs.values())
    return tuple(sorted(each for each in languages if not has_no_spaces(each)))


def _check_language(language: str) -> None:
    """Raises `UserError` if Moses would not separate words by the language's rules."""
    languages = moses_languages()
    if has_no_spaces(language):
        raise UserError(
            f"There is no tokenized BLEU: {NO_SPACES.format(language)} Report "
            "sacreBLEU and chrF."
        )
    if language not in languages:  # it would silently fall back to English
        raise UserError(
            f"The Moses tokenizer has no rules for the language {language!r}. "
            f"Give the target language as one of {', '.join(languages)}, or report "
            "sacreBLEU and chrF alone."
        )
