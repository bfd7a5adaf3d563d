"""Scores, intervals and tests of several systems, against sacreBLEU's own program."""

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from babel.core import get_global
from sacrebleu.metrics.bleu import BLEU

from t2t_keras.errors import MissingPackage, UserError
from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.evaluation.comparison import (
    MetricScore,
    score_translations,
)
from t2t_keras.evaluation.compound_bleu import tokenized_bleu
from t2t_keras.evaluation.scoring_settings import METRICS, ScoringSettings
from t2t_keras.evaluation.tokenizers import (
    bleu_warnings,
    has_no_spaces,
    tokenizer_for,
)
from tests.reference import bleu_np

WORDS = "Haus Baum see tor, U-Bahn »so« 3,5 %".split()
SEED = "77"


def random_systems(
    seed: int, num_lines: int, vocabulary: Sequence[str] = WORDS
) -> tuple[dict[str, list[str]], list[str]]:
    """Returns three systems of different quality and their references."""
    rng = random.Random(seed)

    def damage(line: str, rate: float) -> str:
        words = [
            w if rng.random() > rate else rng.choice(vocabulary) for w in line.split()
        ]
        if rng.random() < rate:
            rng.shuffle(words)
        return " ".join(words)

    references = [
        " ".join(rng.choices(vocabulary, k=rng.randint(4, 12)))
        for _ in range(num_lines)
    ]
    rates = {"good.de": 0.1, "fair.de": 0.2, "poor.de": 0.4}
    systems = {
        name: [damage(line, rate) for line in references]
        for name, rate in rates.items()
    }
    systems["poor.de"][1] = ""
    return systems, references


@pytest.fixture
def run_sacrebleu(tmp_path):
    """Runs sacreBLEU's program on systems; returns its output."""

    def write(name, lines):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    def run(systems, references, *arguments):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "sacrebleu",
                *(write(f"ref{n}", lines) for n, lines in enumerate(references)),
                "-i",
                *(write(name, lines) for name, lines in systems.items()),
                "-w",
                "9",
                *arguments,
            ],
            env={**os.environ, "SACREBLEU_SEED": SEED},
            capture_output=True,
            check=True,
        )
        return done.stdout.decode()

    return run


@pytest.fixture(autouse=True)
def seed(monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", SEED)


def as_printed(score: MetricScore) -> dict[str, float | str]:
    """Returns a score as sacreBLEU's program prints it, without the metric's name."""
    name, _, signature = score.signature.partition("|")
    return {
        "name": name,
        "signature": signature,
        "score": pytest.approx(score.score, abs=1e-8),
        "confidence_mean": pytest.approx(score.mean, abs=1e-8),
        "confidence_var": pytest.approx(score.confidence, abs=1e-9),
    }


def test_scores_and_intervals_equal_sacrebleus_program(run_sacrebleu):
    systems, references = random_systems(seed=1, num_lines=25)
    extra = systems.pop("fair.de")
    [name, _] = systems
    printed = run_sacrebleu(
        {name: systems[name]}, [references, extra],
        "-m", "bleu", "chrf", "ter", "-tok", "intl", "-lc", "--chrf-lowercase",
        "--confidence", "--confidence-n", "40", "-f", "json",
    )  # fmt: skip
    result = score_translations(
        systems,
        references,
        extra_references=[extra],
        tokenize="intl",
        lowercase=True,
        confidence=True,
        resamples=40,
    )
    scores = result.systems[name]
    assert list(scores) == ["bleu", "chrf", "ter"]
    for expected, score in zip(json.loads(printed), scores.values(), strict=True):
        assert as_printed(score).items() <= expected.items()
        assert score.confidence is not None and score.confidence > 0.1
    assert result.references == 2
    assert "nrefs:2|bs:40|seed:77|case:lc" in scores["bleu"].signature


def test_paired_tests_equal_sacrebleus_program(run_sacrebleu):
    systems, references = random_systems(seed=2, num_lines=30)
    metrics = ("bleu", "chrf", "ter")
    for test, flag, n in (("bootstrap", "bs", "50"), ("randomization", "ar", "90")):
        # As text: sacreBLEU 2.6.0 fails to print its float32 numbers as JSON.
        printed = run_sacrebleu(
            systems, [references], "-m", *metrics, "-f", "text",
            f"--paired-{flag}", f"--paired-{flag}-n", n,
        )  # fmt: skip
        result = score_translations(
            systems, references, paired_test=test, resamples=int(n)
        )
        numbers: list[float | None] = []
        p_values = [
            [result.systems[name][metric].p_value for metric in metrics]
            for name in systems
        ]
        assert p_values[0] == [None] * 3
        for name, p_value in zip(systems, p_values, strict=True):
            for score in result.systems[name].values():
                interval = (score.mean, score.confidence)
                assert (test == "bootstrap") == all(interval), interval
                numbers += [score.score, *interval, None, None][:3]
                assert score.signature.partition("|")[2] in printed
            numbers += [p and round(p, 4) for p in p_value]
        table = printed.split("---")[0]
        expected = [float(number) for number in re.findall(r"\d+\.\d+", table)]
        assert len(expected) == (33 if test == "bootstrap" else 15)
        assert [n for n in numbers if n is not None] == pytest.approx(
            expected, abs=1e-8
        )
        assert min(p_values[2]) < 0.03 < max(p_values[1])


def test_systems_without_a_difference_are_not_significantly_different():
    systems, references = random_systems(seed=2, num_lines=30)
    (_, first), *_ = systems.items()
    for test in ("bootstrap", "randomization"):
        result = score_translations(
            {"first": first, "copy": list(first)},
            references,
            paired_test=test,
            resamples=50,
        )
        scores = result.systems["copy"].values()
        assert [score.p_value for score in scores] == [1.0] * 3
        table = result.describe()
        assert table.count("p = 1.0000") == 3 and "p = 1.0000 *" not in table


def test_statistics_of_the_papers_bleu_equal_their_definitions():
    """Koehn (2004), with the definition of BLEU for each resample."""
    # Plain words, which Moses does not change.
    plain, right = random_systems(3, 14, "ein zwei drei vier".split())
    words = {name: [line.split() for line in lines] for name, lines in plain.items()}
    words[""] = [line.split() for line in right]
    count = 60
    result = score_translations(
        plain, right, language="fr", metrics=("tokenized_bleu",),
        paired_test="bootstrap", resamples=count,
    )  # fmt: skip
    rows = np.random.default_rng(int(SEED)).choice(14, size=(count, 14), replace=True)

    def resampled(name):
        return np.array(
            [
                bleu_np.corpus_bleu(
                    [words[name][i] for i in row], [words[""][i] for i in row]
                )
                for row in rows
            ]
        )

    baseline = resampled("good.de")
    for name in plain:
        score = result.systems[name]["tokenized_bleu"]
        assert score.score == pytest.approx(
            bleu_np.corpus_bleu(words[name], words[""]), abs=1e-9
        )
        samples = resampled(name)
        assert (samples > 0).mean() > 0.9
        assert score.mean == pytest.approx(samples.mean(), abs=1e-4)
        # Of 60 resamples, 2.5 % are one on either side.
        ordered = np.sort(samples)
        assert score.confidence == pytest.approx(
            (ordered[-2] - ordered[1]) / 2, abs=1e-4
        )
        if name != "good.de":
            differences = abs(samples - baseline)
            difference = abs(
                score.score - result.systems["good.de"]["tokenized_bleu"].score
            )
            larger = (differences - differences.mean() > difference).sum()
            assert score.p_value == (larger + 1) / (count + 1)


def test_the_papers_bleu_with_and_without_the_punctuation_step():
    hypotheses = ["Er sagte: \u201eIch fahre S-Bahn\u201d \u2026 und ging."]
    references = ['Er sagte: \u201eIch fahre U-Bahn" ... und ging.']
    for language in ("de", "fr"):
        result = score_translations(hypotheses, references, language=language)
        scores = result.systems["system"]
        assert list(scores) == [name for name in METRICS if name != "chrf++"]
        kept, replaced = (
            tokenized_bleu(
                lines, references, language=language, split_compounds=language == "de"
            )
            for lines in (
                hypotheses,
                ['Er sagte: \u201eIch fahre S-Bahn" ... und ging.'],
            )
        )
        assert scores["tokenized_bleu"].score == pytest.approx(kept.bleu, abs=1e-9)
        assert scores["tokenized_bleu"].signature == kept.signature
        assert scores["t2t_bleu"].score == pytest.approx(replaced.bleu, abs=1e-9)
        assert scores["t2t_bleu"].signature == kept.signature.replace(
            "|smooth", "|punct:replaced|smooth"
        )
        assert replaced.bleu > kept.bleu + 5
    quotes = score_translations(
        hypotheses, references, language="de", ascii_quotes=True
    )
    score = quotes.systems["system"]["tokenized_bleu"]
    assert score.score > scores["tokenized_bleu"].score
    assert "|quotes:ascii|" in score.signature


def test_the_language_chooses_the_tokenizer_as_sacrebleus_program_does(run_sacrebleu):
    hypothesis, reference = "我喜欢在公园散步。", "我喜欢在公园里散步。"
    printed = run_sacrebleu(
        {"a": [hypothesis]}, [[reference]], "-l", "en-zh", "-f", "json"
    )
    result = score_translations([hypothesis], [reference], language="zh")
    scores = result.systems["system"]
    assert list(scores) == ["bleu", "chrf"]  # the others count words between spaces
    expected = json.loads(printed)
    assert 20 < expected["score"] < 90
    assert scores["bleu"].score == pytest.approx(expected["score"], abs=1e-8)
    assert scores["bleu"].signature == f"BLEU|{expected['signature']}"
    itself = corpus_scores([reference], [reference], tokenizer_for("zh"))
    assert itself.bleu == pytest.approx(100)
    assert corpus_scores([reference], [reference]).bleu == 0
    assert "|tok:zh|" in itself.bleu_signature
    assert {code: tokenizer_for(code) for code in BLEU._TOKENIZER_MAP} == (
        BLEU._TOKENIZER_MAP
    )


@pytest.mark.parametrize(
    ("languages", "tokenizer"),
    [
        (("zh", "ZH", "zh-TW", "zh_Hans", "zho_Hant", "chi", "cmn", "yue"), "zh"),
        (("ja", "ja-JP", "jpn", "jpn_Jpan"), "ja-mecab"),
        (("ko", "ko_KR", "kor_Hang"), "ko-mecab"),
        (("de", "th", "tha_Thai", "zhx", "", "tree", None), "13a"),
    ],
)
def test_a_language_has_one_tokenizer_however_it_is_written(languages, tokenizer):
    assert {tokenizer_for(language) for language in languages} == {tokenizer}


def test_all_codes_of_a_language_have_its_tokenizer():
    """All that Babel knows, which the core does not need."""
    for code, shortest in get_global("language_aliases").items():
        assert tokenizer_for(code) == tokenizer_for(shortest), code
        assert has_no_spaces(code) == has_no_spaces(shortest), code


@pytest.mark.parametrize("code", ["ja", "ko"])
def test_a_tokenizer_that_is_not_installed_is_never_replaced(code, monkeypatch):
    module = f"sacrebleu.tokenizers.tokenizer_{code}_mecab"
    monkeypatch.setattr(f"{module}.MeCab", None)
    message = rf"{code}-mecab needs packages .* pip install 'sacrebleu\[{code}\]'"
    with pytest.raises(MissingPackage, match=message):
        score_translations(["a"], ["a"], language=code)
    with pytest.raises(MissingPackage, match=message):
        corpus_scores(["a"], ["a"], tokenizer_for(code))
    for options in ({"metrics": ("chrf",)}, {"tokenize": "char"}):
        score_translations(["a"], ["a"], language=code, **options)


THAI = "วันนี้อากาศดีมากและเราไปสวนสาธารณะ"
CHINESE = "你好吗。我们走吧。"


@pytest.mark.parametrize(
    ("language", "tokenize", "reference", "pattern"),
    [
        ("th", "13a", "", "13a takes .* 'th' is .*--tokenize=char"),
        ("lo", "13a", "", "'lo' is written"),
        ("km", "intl", "", "intl takes .* 'km' is written"),
        ("mya_Mymr", "zh", "", "'mya_Mymr' is written"),
        ("zh", "13a", "", "--tokenize=zh separates them"),
        ("ja", "zh", "", "--tokenize=ja-mecab separates them"),
        (None, "13a", CHINESE, "the references are .* --target_language if it is zh"),
        ("thai", "13a", THAI, "the references are .* --tokenize=char"),
        ("th", "char", THAI, None),
        ("th", "none", THAI, None),
        ("zh", "zh", CHINESE, None),
        (None, "zh", CHINESE, None),
        ("ko", "13a", "오늘은 날씨가 매우 좋습니다.", None),
        (None, "13a", "今天 天气 很 好 。 我们 去 公园 吧 。", None),
        ("de", "13a", f"Er sagte: {CHINESE} Das heißt: Los!", None),
        ("de", "13a", "", None),
    ],
)
def test_a_warning_where_bleu_cannot_tell_words(language, tokenize, reference, pattern):
    warnings = bleu_warnings(language, tokenize, [reference] * 3)
    assert len(warnings) == (pattern is not None)
    assert re.search(pattern or "", "".join(warnings))


def test_metrics_that_need_a_language():
    for language in (None, "tlh"):
        result = score_translations(["a"], ["a"], language=language)
        assert list(result.systems["system"]) == ["bleu", "chrf", "ter"], language
    with pytest.raises(UserError, match=r"t2t_bleu needs .* --target_language"):
        score_translations(["a"], ["a"], metrics=("t2t_bleu",))
    with pytest.raises(UserError, match="no rules for the language 'tlh'"):
        score_translations(["a"], ["a"], metrics=("t2t_bleu",), language="tlh")
    for language in ("zh", "yue", "th"):
        with pytest.raises(UserError, match=f"BLEU: .* '{language}' is .* without spa"):
            score_translations(["a"], ["a"], metrics=("t2t_bleu",), language=language)
    with pytest.raises(UserError, match="--ascii_quotes is for tokenized BLEU"):
        score_translations(["a"], ["a"], ascii_quotes=True)


def test_the_table_and_the_values_for_scripts():
    systems, references = random_systems(seed=4, num_lines=9)
    metrics = ("chrf++", "bleu")
    result = score_translations(
        systems, references, metrics=metrics, paired_test="bootstrap", resamples=30
    )
    lines = result.describe().splitlines()
    assert lines[:3] == ["9 sentences, 1 reference", "", lines[2]]
    assert lines[2].split() == ["system", "chrF2++", "BLEU"]
    column = lines[2].index("BLEU")
    for name, line in zip(systems, (lines[3], lines[4], lines[6]), strict=True):
        score = result.systems[name]["bleu"]
        assert line.startswith(f"{name}  ")
        assert line[column:] == f"{score.score:.2f} ± {score.confidence:.2f}"
    for name, line in zip(("fair.de", "poor.de"), (lines[5], lines[7]), strict=True):
        p_value = result.systems[name]["bleu"].p_value
        assert line[:9].strip() == ""
        assert p_value is not None
        star = " *" if p_value <= 0.05 else ""
        assert line[column:] == f"p = {p_value:.4f}{star}"
    assert lines[9].startswith("chrF2++  chrF2++|nrefs:1|bs:30|seed:77|")
    assert lines[10].startswith("BLEU     BLEU|nrefs:1|")
    assert lines[12:] == [
        "±: 95 % confidence interval, by bootstrap",
        "p: paired bootstrap test against good.de; * p ≤ 0.05",
    ]
    values = json.loads(json.dumps(result.as_dict()))
    assert (values["sentences"], values["references"]) == (9, 1)
    assert [system["name"] for system in values["systems"]] == list(systems)
    assert values["systems"][1]["scores"]["bleu"] == {
        "score": result.systems["fair.de"]["bleu"].score,
        "signature": result.systems["fair.de"]["bleu"].signature,
        "mean": result.systems["fair.de"]["bleu"].mean,
        "confidence": result.systems["fair.de"]["bleu"].confidence,
        "p_value": result.systems["fair.de"]["bleu"].p_value,
    }


def test_too_many_sentences_for_sacrebleus_statistics_are_refused():
    lines = ["a"] * 60_000
    with pytest.raises(UserError, match="60,000 sentences would need 4 GB of memory"):
        score_translations(lines, lines, confidence=True)
    systems = {"one": lines, "two": lines}
    with pytest.raises(UserError, match="60,000 sentences would need 10 GB of memory"):
        score_translations(systems, lines, paired_test="randomization")


def test_what_cannot_be_meant_is_refused(monkeypatch):
    for hypotheses, references, options, message in (
        ("a", "a", {"metrics": ("bleu", "blue")}, "Received: blue. Did you mean bleu"),
        ("a", "a", {"tokenize": "31a"}, r"must be one of 13a, .* Did you mean 13a\?"),
        ("a", "a", {"paired_test": "bs"}, "must be one of bootstrap, randomization"),
        ("a", "a", {"resamples": 9}, "is for intervals and tests. Add --confidence"),
        ("a", "a", {"resamples": 1, "confidence": True}, "must be at least 2. Rec"),
        ("a", "a", {"paired_test": "bootstrap"}, "needs two or more. Received: 1"),
        ("a", "a", {"confidenc": True}, r"'confidenc'\. Did you mean confidence"),
        ({}, "a", {}, "There is no system to score"),
        ([None], "a", {}, "Each of the hypotheses must be a string. Received: None"),
        ("ab", "ab", {"extra_references": [["a"]]}, "2 translations and 1 references"),
        ({"x": ["a", "b"], "y": ["a"]}, "ab", {}, "1 translations and 2 references"),
        ([], [], {}, "no sentence to score"),
    ):
        if isinstance(hypotheses, str):
            hypotheses = list(hypotheses)
        with pytest.raises(UserError, match=message):
            score_translations(hypotheses, list(references), **options)
    with pytest.raises(ValueError, match="hypotheses must be a sequence"):
        score_translations("ab", ["a", "b"])
    for seed in ("x1", "0", "-1", ""):
        monkeypatch.setenv("SACREBLEU_SEED", seed)
        with pytest.raises(UserError, match=f"SACREBLEU_SEED must .*: '{seed}'"):
            ScoringSettings(confidence=True)
    ScoringSettings()  # no statistics, no seed
