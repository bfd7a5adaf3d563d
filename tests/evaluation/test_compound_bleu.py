"""Compound BLEU, the paper's metric, against its Perl scripts and the definition."""

import random
from importlib.metadata import version

import pytest
from sacremoses import MosesTokenizer

from t2t_keras.errors import UserError
from t2t_keras.evaluation.compound_bleu import (
    MosesBleu,
    moses_languages,
    replace_unicode_punctuation,
    split_at_hyphens,
    straighten_quotes,
    tokenized_bleu,
)
from tests.reference import bleu_np

REFERENCES = (
    "Der deutsch-französische Gipfel begann am 3. Oktober 2014 in Straßburg.",
    "„Das ist z.B. ein Nord-Süd-Gefälle“, sagte Dr. Meyer.",
    "Sie kaufte 1.250,50 kg Äpfel, Birnen usw. und fuhr heim.",
    "Wie geht's dem 12-jährigen Jungen & seiner Mutter (41)?",
    "Er wartete... und dann - endlich - kam der S-Bahn-Zug!",
)
HYPOTHESES = (
    "Der deutsch-französische Gipfel begann am 3. Oktober in Straßburg.",
    '"Das ist z.B. ein Nord-Süd-Gefälle", sagte Dr. Meyer.',
    "Sie kaufte 1.250,50 kg Birnen, Äpfel usw. und fuhr nach Hause.",
    "Wie geht's dem 12-jährigen Mädchen & der Mutter (41)?",
    "Er wartete... und dann - endlich - kam der Zug!",
)


# Results of tokenizer.perl 1.1, the substitution in Perl 5.36 and multi-bleu.perl
# (without options, printing more digits) for the lines above: BLEU, four precisions,
# brevity penalty, both lengths.
SCORED_BY_PERL = (
    (False, False, (63.787894, 88.5246, 69.6429, 58.8235, 45.6522, 1.0, 61, 61)),
    (True, False, (65.833303, 91.3043, 75.0, 64.4068, 53.7037, 0.943677, 69, 73)),
    (True, True, (71.871670, 94.2029, 79.6875, 71.1864, 62.963, 0.943677, 69, 73)),
)


def test_equals_the_perl_scripts():
    for row in SCORED_BY_PERL:
        split, ascii_quotes, expected = row
        result = tokenized_bleu(
            HYPOTHESES,
            REFERENCES,
            language="de",
            split_compounds=split,
            ascii_quotes=ascii_quotes,
        )
        bleu, p1, p2, p3, p4, penalty, hypothesis_length, reference_length = expected
        assert result.bleu == pytest.approx(bleu, abs=1e-6), row
        assert result.precisions == pytest.approx((p1, p2, p3, p4), abs=1e-4), row
        assert result.brevity_penalty == pytest.approx(penalty, abs=1e-6), row
        assert result.hypothesis_length == hypothesis_length, row
        assert result.reference_length == reference_length, row


# Tokens as tokenizer.perl 1.1 -l de / -l fr prints them. Ordinals and abbreviations
# keep their full stop, the stop after "z.B" at the end too (Moses changed that at
# the end of 2018); French elisions keep their apostrophe on the left.
CUT_BY_MOSES = (
    (
        "de",
        REFERENCES[0],
        "Der deutsch-französische Gipfel begann am 3. Oktober 2014 in Straßburg .",
    ),
    (
        "de",
        REFERENCES[3],
        "Wie geht &apos; s dem 12-jährigen Jungen &amp; seiner Mutter ( 41 ) ?",
    ),
    (
        "de",
        REFERENCES[4],
        "Er wartete ... und dann - endlich - kam der S-Bahn-Zug !",
    ),
    (
        "fr",
        "L'homme qu'il a vu hier n'est pas venu aujourd'hui.",
        "L&apos; homme qu&apos; il a vu hier n&apos; est pas venu aujourd&apos; hui .",
    ),
    (
        "fr",
        "Le porte-parole [anonyme] a-t-il vraiment parlé à 19 h ?",
        "Le porte-parole &#91; anonyme &#93; a-t-il vraiment parlé à 19 h ?",
    ),
)


def test_tokens_are_those_of_moses():
    for language, text, tokens in CUT_BY_MOSES:
        assert MosesTokenizer(language).tokenize(text, return_str=True) == tokens, text
        # The metric uses the rules of the given language.
        result = tokenized_bleu(
            [text], [text], language=language, split_compounds=False
        )
        assert result.reference_length == len(tokens.split()), text


def random_corpus(seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Returns token lists of a small vocabulary; some empty, some below four."""
    rng = random.Random(seed)
    words = ("haus", "Haus", "baum", "see", "tor")

    def tokens() -> list[str]:
        return rng.choices(words, k=rng.choice((0, 1, 3, 5, 8, 13)))

    references = [tokens() for _ in range(rng.randint(4, 17))]
    hypotheses = [
        [rng.choice(words) if rng.random() < 0.2 else token for token in line]
        + rng.choices(words, k=rng.randint(0, 2))
        for line in references
    ]
    return hypotheses, references


def score(hypotheses, references) -> float:
    return tokenized_bleu(
        [" ".join(line) for line in hypotheses],
        [" ".join(line) for line in references],
        language="de",
        split_compounds=True,
    ).bleu


def test_equals_the_definition_on_random_corpora():
    swapped_differs = 0
    for seed in range(100):
        hypotheses, references = random_corpus(seed)
        expected = bleu_np.corpus_bleu(hypotheses, references)
        assert score(hypotheses, references) == pytest.approx(expected, abs=1e-9)
        swapped = bleu_np.corpus_bleu(references, hypotheses)
        assert score(references, hypotheses) == pytest.approx(swapped, abs=1e-9)
        swapped_differs += abs(swapped - expected) > 0.1
    # Longer than the reference one way round, shorter the other: the brevity
    # penalty is at work, and swapped sides would have been noticed.
    assert swapped_differs > 80


NOT_MATCHED = (
    ("eins zwei", "drei vier"),
    ("eins zwei drei", "eins zwei drei"),
    ("eins zwei drei vier", "vier drei zwei eins"),
    ("", "eins"),
    ("eins", ""),
    ("", ""),
)


def test_no_match_at_some_length_scores_zero():
    # Not smoothed: with sacreBLEU's smoothing the third case would score above 0.
    for row in NOT_MATCHED:
        hypothesis, reference = row
        assert score([hypothesis.split()], [reference.split()]) == 0.0, row


def test_escaping_does_not_move_the_score():
    # One token is wrong in each line, so that the score is not 100.
    references = [
        'Er sagte: "A & B [sic] sind <neu> | alt", und ging.',
        "Geht's dir 'gut'? Ja & nein & vielleicht.",
    ]
    hypotheses = [
        references[0].replace("neu", "grau"),
        references[1].replace("Ja", "So"),
    ]
    moses = MosesTokenizer("de")
    plain = [
        [moses.tokenize(line, escape=False) for line in side]
        for side in (hypotheses, references)
    ]
    result = tokenized_bleu(
        hypotheses, references, language="de", split_compounds=False
    )
    assert 10 < result.bleu < 95
    assert result.bleu == pytest.approx(bleu_np.corpus_bleu(*plain), abs=1e-9)


def test_splitting_raises_the_score_of_a_half_right_compound():
    hypothesis = ["Wir nahmen den S-Bahn-Zug nach Hause"]
    reference = ["Wir nahmen den U-Bahn-Zug nach Hause"]
    whole, split = (
        tokenized_bleu(hypothesis, reference, language="de", split_compounds=choice)
        for choice in (False, True)
    )
    # Whole: 5 of 6 tokens match, 3 of 5 pairs, 1 of 4 triples and 0 of 3 fours.
    assert whole.precisions == pytest.approx((500 / 6, 300 / 5, 100 / 4, 0))
    assert whole.bleu == 0.0
    # Split: "S - Bahn - Zug" is five tokens, one of them wrong. Of 10 tokens 9
    # match, of 9 pairs 7, of 8 triples 5, of 7 fours 3.
    assert split.precisions == pytest.approx((900 / 10, 700 / 9, 500 / 8, 300 / 7))
    expected = 100 * (9 / 10 * 7 / 9 * 5 / 8 * 3 / 7) ** 0.25
    assert split.bleu == pytest.approx(expected, abs=1e-9)


# As printed by: perl -ple 's{(\S)-(\S)}{$1 ##AT##-##AT## $2}g'
SPLIT_BY_PERL = (
    ("a-b-c", "a ##AT##-##AT## b-c"),
    ("ab-cd-ef", "ab ##AT##-##AT## cd ##AT##-##AT## ef"),
    ("x-y z-w", "x ##AT##-##AT## y z ##AT##-##AT## w"),
    ("é-ü", "é ##AT##-##AT## ü"),
    # Perl works on bytes: the hyphen before "à" consumes its \xc3, and the hyphen after
    # it its \xa0. Perl 5.36 printed all of these.
    ("vis-à-vis", "vis ##AT##-##AT## à ##AT##-##AT## vis"),
    ("é-ü-é", "é ##AT##-##AT## ü ##AT##-##AT## é"),
    ("à-b-c", "à ##AT##-##AT## b-c"),
    ("a\u00a0-b \u0085-x", "a\u00a0 ##AT##-##AT## b \u0085 ##AT##-##AT## x"),
    ("a--b", "a ##AT##-##AT## -b"),
    ("---", "- ##AT##-##AT## -"),
    ("a - b", "a - b"),
    ("-a-", "-a-"),
    ("", ""),
)


def test_split_as_perl_splits():
    for line, expected in SPLIT_BY_PERL:
        assert split_at_hyphens(line) == expected, repr(line)


def test_quotes_made_straight():
    curly = "\u201ea\u201c \u201db\u201f \u201ac\u2018 d\u2019s \u201be \u00abf\u00bb"
    assert straighten_quotes(curly) == "\"a\" \"b\" 'c' d's 'e \u00abf\u00bb"


# Characters with what replace-unicode-punctuation.perl (Moses, October 2019) printed
# for each in Perl 5.36, in the order of the script. It does not change the rest.
REPLACED_BY_PERL = (
    ("\uff0c", ","),
    ("\u3002", ". "),
    ("\u3001", ","),
    ("\u201d", '"'),
    ("\u201c", '"'),
    ("\u2236", ":"),
    ("\uff1a", ":"),
    ("\uff1f", "?"),
    ("\u300a", '"'),
    ("\u300b", '"'),
    ("\uff09", ")"),
    ("\uff01", "!"),
    ("\uff08", "("),
    ("\uff1b", ";"),
    ("\uff11", "1"),
    ("\u300d", '"'),
    ("\u300c", '"'),
    ("\uff10", "0"),
    ("\uff13", "3"),
    ("\uff12", "2"),
    ("\uff15", "5"),
    ("\uff16", "6"),
    ("\uff19", "9"),
    ("\uff17", "7"),
    ("\uff18", "8"),
    ("\uff14", "4"),
    ("\uff0e", ". "),
    ("\uff5e", "~"),
    ("\u2019", "'"),
    ("\u2026", "..."),
    ("\u2501", "-"),
    ("\u3008", "<"),
    ("\u3009", ">"),
    ("\u3010", "["),
    ("\u3011", "]"),
    ("\uff05", "%"),
)
KEPT_BY_PERL = "\u201e\u201a\u2018\u2013\u2014\u00ab\u00bb\u2032-\"'a\u00e4"


def test_punctuation_is_replaced_as_by_moses():
    for before, after in REPLACED_BY_PERL:
        assert replace_unicode_punctuation(f"x{before}y") == f"x{after}y", ascii(before)
        # Only two of them consume the spaces behind.
        gap = "" if after == ". " else "  "
        text = replace_unicode_punctuation(f"x{before}  y")
        assert text == f"x{after}{gap}y", ascii(before)
    assert replace_unicode_punctuation(KEPT_BY_PERL) == KEPT_BY_PERL


def test_the_punctuation_step_comes_before_tokens_on_both_sides():
    hypotheses = ["\u201eDas\u201c gibt\u2019s heute \u2026 und morgen nicht."]
    references = ["\u201eDas\" gibt's heute ... und \u201cmorgen\u201d nicht."]
    replaced = MosesBleu("de", split_compounds=True, replace_punctuation=True)
    score = replaced.corpus_score(hypotheses, [references])
    expected = tokenized_bleu(
        ["\u201eDas\" gibt's heute ... und morgen nicht."],
        ['\u201eDas" gibt\'s heute ... und "morgen" nicht.'],
        language="de",
        split_compounds=True,
    )
    assert 30 < expected.bleu < 90
    assert score.score == pytest.approx(expected.bleu, abs=1e-9)
    kept = tokenized_bleu(
        hypotheses, references, language="de", split_compounds=True
    ).bleu
    assert kept < expected.bleu - 10


def test_case_is_ignored_after_the_tokens_are_known():
    # Of "Dr." Moses keeps the period, of "dr." it does not.
    assert MosesTokenizer("de").tokenize("sah dr. Meyer.") == "sah dr . Meyer .".split()
    metric = MosesBleu("de", split_compounds=True, lowercase=True)
    score = metric.corpus_score(["Er sah Dr. Meyer."], [["er SAH Dr. MEYER."]])
    assert (score.score, score.sys_len, score.ref_len) == (pytest.approx(100), 5, 5)


def test_several_references_by_hand():
    hypothesis = ["a b c d e f"]
    references = [["a b c x d e f"], ["z d e f"], ["b c y c d e q"]]
    metric = MosesBleu("de", split_compounds=True)
    # All words and pairs are in one reference or another. Of the triples, bcd is in
    # none, nor is any of the three runs of four.
    score = metric.corpus_score(hypothesis, references)
    assert score.precisions == pytest.approx([100, 100, 75, 0])
    assert score.score == 0.0
    # Now cdef is. Of the lengths 7, 5 and 7, all as far away, the shortest counts.
    references[1] = ["z c d e f"]
    score = metric.corpus_score(hypothesis, references)
    assert score.precisions == pytest.approx([100, 100, 75, 100 / 3])
    assert (score.sys_len, score.ref_len) == (6, 5)
    assert score.score == pytest.approx(100 * (3 / 4 * 1 / 3) ** 0.25)


def test_signature_names_every_choice():
    versions = f"sacremoses-{version('sacremoses')}+sacrebleu-{version('sacrebleu')}"
    line = ["Ein Haus am See."]
    german = tokenized_bleu(line, line, language="de", split_compounds=True)
    assert german.signature == (
        "multi-bleu|nrefs:1|case:mixed|tok:moses-de|compounds:split|quotes:kept"
        f"|smooth:none|version:{versions}"
    )
    french = tokenized_bleu(
        line, line, language="fr", split_compounds=False, ascii_quotes=True
    )
    assert french.signature == (
        "multi-bleu|nrefs:1|case:mixed|tok:moses-fr|compounds:kept|quotes:ascii"
        f"|smooth:none|version:{versions}"
    )


def test_unknown_language_is_refused_before_moses_falls_back_to_english():
    assert {"de", "en", "fr"} <= set(moses_languages())
    with pytest.raises(UserError, match=r"no rules for the language 'xx'.*de, el, en"):
        tokenized_bleu(["a"], ["a"], language="xx", split_compounds=False)


def test_the_signature_of_the_metric_has_what_is_not_the_papers():
    metric = MosesBleu(
        "fr", split_compounds=False, replace_punctuation=True, lowercase=True
    )
    score = metric.corpus_score(["a b"], [["a b"], ["c"]], n_bootstrap=3)
    assert score.name == "multi-bleu"
    assert str(metric.get_signature()).startswith(
        "nrefs:2|bs:3|seed:12345|case:lc|tok:moses-fr|compounds:kept|quotes:kept|"
        "punct:replaced|smooth:none|version:sacremoses-"
    )


def test_language_matters():
    text = ["L'homme qu'il a vu n'est pas là."]
    lengths = {
        language: tokenized_bleu(
            text, text, language=language, split_compounds=False
        ).reference_length
        for language in ("de", "en", "fr")
    }
    # German cuts both sides of an apostrophe, the others one side.
    assert lengths == {"de": 14, "en": 11, "fr": 11}


def test_unequal_counts_and_nothing_to_score_are_refused():
    with pytest.raises(UserError, match="1 translations and 2 references"):
        tokenized_bleu(["a"], ["a", "b"], language="de", split_compounds=True)
    with pytest.raises(UserError, match="no sentence to score"):
        tokenized_bleu([], [], language="de", split_compounds=True)
    with pytest.raises(ValueError, match="references must be a sequence"):
        tokenized_bleu(["a", "b"], "ab", language="de", split_compounds=True)
