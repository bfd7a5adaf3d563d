"""sacreBLEU and chrF, the scores to report, each with its signature.

The paper's own, older metric is in `t2t_keras.evaluation.compound_bleu`; ADR 0012
explains why there are two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.chrf import CHRF

from t2t_keras.errors import UserError
from t2t_keras.evaluation.tokenizers import build_bleu


@dataclass(frozen=True)
class Scores:
    """Scores of a set of translations, with the signatures to reproduce them.

    Attributes:
        bleu: Corpus BLEU, 0 to 100.
        bleu_signature: sacreBLEU's signature of `bleu`, ending in its version.
        chrf: Corpus chrF2, 0 to 100.
        chrf_signature: sacreBLEU's signature of `chrf`.
        hypothesis_length: Number of words in the translations, tokenized as for `bleu`.
        reference_length: Number of words in the references. Translations shorter than
            this in total are penalized.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    hypothesis_length: int
    reference_length: int

    @property
    def headline(self) -> tuple[str, float]:
        """Name and value of the main score, BLEU."""
        return "BLEU", self.bleu

    @property
    def table(self) -> str:
        """Empty: BLEU scores a corpus, not its sentences."""
        return ""

    def lines(self) -> list[str]:
        """Returns both scores, each with its signature."""
        return [
            f"BLEU {self.bleu:.2f}  {self.bleu_signature}",
            f"chrF {self.chrf:.2f}  {self.chrf_signature}",
        ]

    def as_dict(self) -> dict[str, Any]:
        """Returns the scores as the run card stores them."""
        return {
            "bleu": self.bleu,
            "bleu_signature": self.bleu_signature,
            "chrf": self.chrf,
            "chrf_signature": self.chrf_signature,
        }


def corpus_scores(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> Scores:
    """Returns sacreBLEU and chrF of translations with one reference each.

    sacreBLEU tokenizes by itself, so both sides are plain, untokenized text.
    Nothing is lowercased or otherwise changed first: scores are comparable exactly
    when their signatures agree.

    Args:
        hypotheses: The translations, one sentence each. A translation may be
            empty; it then matches nothing.
        references: The reference of `hypotheses[i]` at the same index.
        tokenize: Tokenizer of BLEU; see `tokenizer_for`.

    Returns:
        The scores of the whole set. BLEU is not a mean of sentence scores, so
        the scores of parts cannot be averaged.

    Raises:
        UserError: If there is no sentence, not one reference per translation, or no
            such tokenizer here.
        ValueError: If either side is a single string.

    Source: Post, "A Call for Clarity in Reporting BLEU Scores" (2018); Popović,
    "chrF: character n-gram F-score for automatic MT evaluation" (2015).

    Here 4 of 5 words match, 2 of 4 bigrams, 1 of 3 trigrams, and none of the two
    4-grams, which sacreBLEU smooths to half a match:

    >>> scores = corpus_scores(["Das ist ein Haus."], ["Das war ein Haus."])
    >>> round(scores.bleu, 2), round(100 * (4/5 * 2/4 * 1/3 * 0.5/2) ** (1/4), 2)
    (42.73, 42.73)
    """
    check_sentence_pairs(hypotheses, references)
    bleu, chrf = build_bleu(tokenize), CHRF()
    bleu_score = bleu.corpus_score(hypotheses, [references])
    chrf_score = chrf.corpus_score(hypotheses, [references])
    return Scores(
        bleu=bleu_score.score,
        bleu_signature=f"{bleu_score.name}|{bleu.get_signature()}",
        chrf=chrf_score.score,
        chrf_signature=f"{chrf_score.name}|{chrf.get_signature()}",
        hypothesis_length=bleu_score.sys_len,
        reference_length=bleu_score.ref_len,
    )


def check_sentence_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Checks that every translation has exactly one reference.

    The metrics' own code stops at the end of the shorter side, and would silently
    score a truncated file.

    Raises:
        UserError: If the counts differ or are 0, or a sentence is not a string.
        ValueError: If either side is a single string, whose letters would
            otherwise be scored as sentences.
    """
    for name, sentences in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(sentences, str):
            raise ValueError(
                f"{name} must be a sequence of sentences. Received: one string"
            )
        others = [each for each in sentences if not isinstance(each, str)]
        if others:
            raise UserError(
                f"Each of the {name} must be a string. Received: {others[0]!r}"
            )
    if len(hypotheses) != len(references):
        raise UserError(
            "Each translation is scored against one reference, but there are "
            f"{len(hypotheses)} translations and {len(references)} references. Check "
            "that both files hold one sentence per line, for the same sentences."
        )
    if not hypotheses:
        raise UserError(
            "There is no sentence to score: the translations and the references are "
            "both empty. Check that the file names are those of the test set."
        )
