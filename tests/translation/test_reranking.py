"""Minimum Bayes risk, against a loop over all pairs of hypotheses."""

import sacrebleu

from t2t_keras.translation.reranking import rerank_by_chrf
from t2t_keras.translation.translator import EMPTY, Translation


def hypotheses(*texts):
    return tuple(
        Translation(text, -float(n), -2.0 * n, n) for n, text in enumerate(texts)
    )


def expected_chrf(text, texts):
    scores = [sacrebleu.sentence_chrf(text, [other]).score for other in texts]
    return sum(scores) / len(scores)


def test_the_most_typical_text_comes_first():
    texts = (
        "der alte Hund schläft",
        "ein Hund schläft",
        "der Hund schläft tief",
        "eine Katze",
        "der Hund schläft",
        "die Katze schläft",
    )
    found = [each.text for each in rerank_by_chrf(hypotheses(*texts))]
    assert found == sorted(texts, key=lambda text: -expected_chrf(text, texts))
    assert found[0] == "der Hund schläft tief"


def test_hypotheses_with_one_text_all_count_and_the_first_is_returned():
    texts = ("the dog sleeps", "a red apple", "the cat", "a red apple", "a red apple")
    found = rerank_by_chrf(hypotheses(*texts))
    assert found[0].text == "a red apple"
    assert found[0].log_prob == -2.0
    assert len(found) == 3
    # With weights of one, the first would win: it shares words with the cat.
    alone = rerank_by_chrf(hypotheses(*dict.fromkeys(texts)))
    assert alone[0].text == "the dog sleeps"


def test_equals_keep_their_order_and_empty_texts_are_like_themselves():
    found = rerank_by_chrf(hypotheses("xy", "ab", "cd"))
    assert [each.text for each in found] == ["xy", "ab", "cd"]
    assert rerank_by_chrf(hypotheses("a", "", ""))[0].text == ""
    assert rerank_by_chrf((EMPTY,)) == (EMPTY,)
