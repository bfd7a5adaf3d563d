"""Language detection among candidates."""

from t2t_keras.text.language_detection import Detection, LanguageDetector

TEXTS = (
    ("en", "The old teacher gave the child three red apples."),
    ("de", "Der alte Lehrer gab dem Kind drei rote Äpfel."),
    ("fr", "Le vieux professeur a donné trois pommes rouges à l'enfant."),
    ("nb", "Den gamle læreren ga barnet tre røde epler, og så gikk hun hjem."),
    ("zh-Hans", "老师给了孩子三个红苹果。"),
)


def test_sentences_of_several_languages():
    detector = LanguageDetector()
    codes = ("en", "de", "fr", "nb", "zh-Hans", "zh-Hant", "xx")
    for code, text in TEXTS:
        first, *others = detector.detect(text, codes)
        assert first.language == code, text
        assert 50.0 < first.confidence <= 100.0
        assert len(others) == 2
        assert sum(each.confidence for each in (first, *others)) <= 100.2
        assert all(each.confidence <= first.confidence for each in others)


def test_only_candidates_are_detected():
    detector = LanguageDetector()
    german = TEXTS[1][1]
    assert {each.language for each in detector.detect(german, ("en", "fr"))} == {
        "en",
        "fr",
    }
    # The candidates of the call before do not matter.
    assert detector.detect(german, ("en", "de"))[0].language == "de"
    assert detector.detect(german, ("en",)) == [Detection("en", 100.0)]


def test_nothing_to_tell_a_language_by():
    detector = LanguageDetector()
    for text in ("", " ", "123 ...", "🙂"):
        assert detector.detect(text, ("fr", "en")) == [Detection("fr", 0.0)]
    assert detector.detect("abc", ("xx", "qq")) == [Detection("xx", 0.0)]


def test_the_odds_of_another_language():
    detector = LanguageDetector()
    assert {"en", "de", "no", "zh"} <= set(detector.languages())
    english = TEXTS[0][1]
    assert detector.odds_of_another(english, "en") == 1
    assert detector.odds_of_another(english, "de") > 100
    # The detector without candidates is not one of those before.
    detector.detect(english, ("fr", "de"))
    assert detector.odds_of_another(english, "fr") > 100
    for text in ("", "42", "🙂"):
        assert detector.odds_of_another(text, "nb") == 1
