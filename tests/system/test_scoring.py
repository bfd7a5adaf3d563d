"""Scores of a model: perplexity by the definition, BLEU by its own tests' definition."""

import dataclasses
import json
import math

import pytest

from t2t_keras import scoring
from t2t_keras.config import DecodingConfig
from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.evaluation.compound_bleu import tokenized_bleu
from t2t_keras.input_pipeline.corpora import open_corpus
from tests.system.random_model import (
    CONFIG,
    made_up_lines,
    random_model,
    random_vocabulary,
    reader_of,
    trained_of,
)

GREEDY = DecodingConfig(beam_size=1, alpha=0.0, extra_length=2)


@pytest.fixture(scope="module")
def random_trained():
    vocabulary = random_vocabulary()
    return trained_of(random_model(vocabulary), vocabulary)


@pytest.fixture(scope="module")
def test_set():
    source = [line.encode() for line in made_up_lines(11, seed=21)]
    return scoring.TestSet("news", source, made_up_lines(11, seed=22, longest=4))


@pytest.fixture(scope="module")
def report(random_trained, test_set):
    return scoring.score(random_trained, test_set, GREEDY)


def test_perplexity_is_that_of_the_references(random_trained, test_set):
    read = reader_of(random_trained.model)
    encode = random_trained.vocabulary.encode
    log_prob, num_tokens = 0.0, 0
    for source, reference in zip(test_set.source, test_set.references, strict=True):
        log_prob += read(encode(source), encode(reference))
        num_tokens += len(encode(reference))
    expected = math.exp(-log_prob / num_tokens)
    found = scoring.perplexity(random_trained, test_set)
    assert found == pytest.approx(expected, rel=1e-5)
    # A mean of sentences' perplexities, or of their mean losses, is another number.
    alone = [
        scoring.perplexity(random_trained, scoring.TestSet("", [s], [r]))
        for s, r in zip(test_set.source[:3], test_set.references[:3], strict=True)
    ]
    three = scoring.TestSet("", test_set.source[:3], test_set.references[:3])
    together = scoring.perplexity(random_trained, three)
    assert abs(together - math.fsum(alone) / 3) > 1e-3


def test_perplexity_reads_longer_sentences_than_were_trained_on(random_trained):
    text = " ".join(["grün"] * 60)
    one = scoring.TestSet("", [text.encode()], [text])
    encoded = random_trained.vocabulary.encode(text)
    assert len(encoded) > CONFIG.data.max_length
    expected = -reader_of(random_trained.model)(encoded, encoded) / len(encoded)
    found = math.log(scoring.perplexity(random_trained, one))
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_report_holds_the_scores_of_its_translations(report, test_set):
    texts = [line.text for line in report.translations]
    assert report.scores == corpus_scores(texts, test_set.references)
    assert report.tokenized == tokenized_bleu(
        texts, test_set.references, language="fr", split_compounds=False
    )
    assert (report.name, report.step, report.decoding) == ("news", 123, GREEDY)
    assert report.seconds > 0


def test_compounds_are_split_in_german_alone(random_trained, test_set):
    def tokenized(language):
        data = dataclasses.replace(CONFIG.data, target_language=language)
        config = dataclasses.replace(CONFIG, data=data)
        trained = dataclasses.replace(random_trained, config=config)
        small = scoring.TestSet("", test_set.source[:1], test_set.references[:1])
        return scoring.score(trained, small, GREEDY).tokenized

    german, klingon = tokenized("de"), tokenized("tlh")
    assert "compounds" in german.signature
    assert klingon is None


def test_progress_is_told(random_trained, test_set):
    done = []
    small = scoring.TestSet("", [b"", *test_set.source[:2]], ["", "a", "a"])
    scoring.score(random_trained, small, GREEDY, done.append)
    assert sum(done) == 3


def test_a_report_in_words(report):
    lines = report.describe().splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("news: 11 sentences, step 123, beam 1, alpha 0, ")
    assert lines[1].startswith(f"  BLEU {report.scores.bleu:.2f}  BLEU|nrefs:1|")
    assert lines[2].startswith(f"  chrF {report.scores.chrf:.2f}  chrF2|nrefs:1|")
    assert lines[3].startswith("  tokenized BLEU ")
    assert lines[4] == f"  perplexity per subword {report.perplexity:.3f}"
    without = dataclasses.replace(report, tokenized=None)
    assert len(without.describe().splitlines()) == 4


def test_the_facts_for_the_run_card_are_plain_json(report):
    facts = json.loads(json.dumps(report.facts()))
    assert facts["bleu"] == report.scores.bleu
    assert facts["bleu_signature"] == report.scores.bleu_signature
    assert facts["chrf"] == report.scores.chrf
    assert facts["perplexity"] == report.perplexity
    assert facts["tokenized_bleu"] == report.tokenized.bleu
    assert facts["sentences"] == 11
    assert facts["step"] == 123
    assert facts["decoding"] == {"beam_size": 1, "alpha": 0.0, "extra_length": 2}
    assert "tokenized_bleu" not in dataclasses.replace(report, tokenized=None).facts()


def test_a_split_is_read_as_text(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes("grün\u2028er\nb\n".encode())
    target.write_bytes("Ü\nB\n".encode())
    corpus = open_corpus(files={"test": ([source], [target])})
    read = scoring.read_split(corpus, "test")
    assert read.name == "test"
    assert list(read.source) == ["grün\u2028er".encode(), b"b"]
    assert list(read.references) == ["Ü", "B"]
    with pytest.raises(UserError, match="has no dev split, only: test"):
        scoring.read_split(corpus, "dev")


def test_an_empty_split_is_refused(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"\n")
    target.write_bytes(b"\n")
    corpus = open_corpus(files={"test": ([source], [target])})
    with pytest.raises(UserError, match="The test split of text files has no sentence"):
        scoring.read_split(corpus, "test")
