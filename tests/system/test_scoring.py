"""Scores of a model: perplexity by its definition, the others as tested elsewhere."""

import dataclasses
import json
import math

import pytest

from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.evaluation.compound_bleu import tokenized_bleu
from t2t_keras.evaluation.translator import TranslatedLine, Translation
from t2t_keras.input_pipeline.corpora.corpus import open_corpus
from t2t_keras.parsing.linearization import tree_words
from t2t_keras.parsing.tree_scores import score_trees
from t2t_keras.parsing.trees import read_trees
from t2t_keras.runs import models, scoring
from t2t_keras.runs.tasks import task_for
from t2t_keras.settings.config import DecodingConfig
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
def scored(random_trained, test_set):
    """The report, and what was said of its progress."""
    done = []
    return scoring.score(
        random_trained, test_set, GREEDY, on_progress=done.append
    ), done


@pytest.fixture
def report(scored):
    return scored[0]


def test_perplexity_is_that_of_the_references(random_trained, test_set):
    """Sentences longer than any that was trained on are read, too."""
    read = reader_of(random_trained.model)
    encode = random_trained.vocabulary.encode
    long = " ".join(["grün"] * 60)
    assert len(encode(long)) > CONFIG.data.max_length
    source = [*test_set.source, long.encode()]
    references = [*test_set.references, long]
    pairs = [(encode(s), encode(r)) for s, r in zip(source, references, strict=True)]
    log_probs = [read(*pair) for pair in pairs]
    num_tokens = [len(target) for _, target in pairs]
    found, left_out = scoring.perplexity(
        random_trained, scoring.TestSet("", source, references)
    )
    assert left_out == 0
    expected = math.exp(-math.fsum(log_probs) / sum(num_tokens))
    assert found == pytest.approx(expected, rel=1e-5)
    # A mean of means, which weighs short sentences too heavily, is another number.
    means = [-p / n for p, n in zip(log_probs, num_tokens, strict=True)]
    assert abs(math.exp(math.fsum(means) / len(means)) - expected) > 1e-2 * expected


def test_what_perplexity_is_without_is_counted(test_set):
    """With positions learned for 24 subwords, the rest of the pairs are scored."""
    vocabulary = random_vocabulary()
    encode = vocabulary.encode
    trained = trained_of(random_model(vocabulary, learned_positions=24), vocabulary)
    pairs = list(zip(test_set.source, test_set.references, strict=True))
    pairs += [(b"a", "a " * 24), (b"a " * 24, "a"), (b"", "a"), (b"a", " ")]
    fits = [all(1 < len(encode(side)) <= 24 for side in pair) for pair in pairs]
    assert sum(fits) > 4

    def found(kept):
        sources, references = zip(*kept, strict=True)
        return scoring.perplexity(
            trained, scoring.TestSet("", list(sources), list(references))
        )

    alone, _ = found([pair for pair, fit in zip(pairs, fits, strict=True) if fit])
    assert found(pairs) == (pytest.approx(alone, rel=1e-6), len(fits) - sum(fits))
    assert found(pairs[-4:]) == (None, 4)


def test_without_a_pair_of_known_perplexity_the_other_scores_are_there(report):
    report = dataclasses.replace(report, perplexity=None, left_out=11)
    assert report.describe().splitlines()[4] == (
        "  perplexity per subword none  without 11 pairs that are too long or empty"
    )
    assert report.as_dict()["perplexity"] is None
    assert report.as_dict()["bleu"] == report.scores.as_dict()["bleu"]


def test_a_report_holds_the_scores_of_its_translations(report, test_set):
    texts = [line.text for line in report.translations]
    assert report.scores == corpus_scores(texts, test_set.references)
    assert report.tokenized == tokenized_bleu(
        texts, test_set.references, language="fr", split_compounds=False
    )
    assert (report.name, report.step, report.decoding) == ("news", 123, GREEDY)
    assert report.seconds > 0


@pytest.fixture
def translated_as(monkeypatch):
    """Makes whatever is translated become a given text."""

    def become(text):
        class Echo:
            def translate(self, lines, report):
                return [TranslatedLine((Translation(text, -1.0, -1.0, 2),))]

        monkeypatch.setattr(models, "build_translator", lambda *_: Echo())
        monkeypatch.setattr(scoring, "perplexity", lambda *_: (1.0, 0))

    return become


def test_curly_quotes_may_count_as_straight_ones(random_trained, translated_as):
    """For the paper's metric alone: sacreBLEU has its own rules."""
    translated_as("Er sagte: „Das Haus ist rot.“")
    trained = trained_of(
        random_trained.model, random_trained.vocabulary, target_language="de"
    )
    one = scoring.TestSet("", [b"x"], ['Er sagte: "Das Haus ist rot."'])
    plain, ascii_quotes = (
        scoring.score(trained, one, GREEDY, ascii_quotes=on) for on in (False, True)
    )
    assert plain.tokenized.bleu < 90
    assert ascii_quotes.tokenized.bleu == pytest.approx(100)
    assert plain.scores == ascii_quotes.scores


def test_compounds_are_split_in_german_alone(random_trained, translated_as):
    translated_as("Haus-Bau")

    def tokenized(language):
        trained = trained_of(
            random_trained.model, random_trained.vocabulary, target_language=language
        )
        one = scoring.TestSet("", [b"house building"], ["Haus-Bau"])
        return scoring.score(trained, one, GREEDY).tokenized

    expected = {
        language: tokenized_bleu(
            ["Haus-Bau"], ["Haus-Bau"], language=language, split_compounds=split
        )
        for language, split in (("de", True), ("fr", False))
    }
    assert expected["de"].signature != expected["fr"].signature
    assert {language: tokenized(language) for language in expected} == expected
    assert tokenized("tlh") is None


def test_progress_is_told(scored):
    _, done = scored
    assert sum(done) == 11


def test_a_report_in_words(report):
    lines = report.describe().splitlines()
    assert len(lines) == 5
    assert lines[0].startswith(
        f"news: 11 sentences, {report.checkpoint}, beam 1, alpha 0, "
    )
    assert lines[1].startswith(f"  BLEU {report.scores.bleu:.2f}  BLEU|nrefs:1|")
    assert lines[2].startswith(f"  chrF {report.scores.chrf:.2f}  chrF2|nrefs:1|")
    assert lines[3].startswith("  tokenized BLEU ")
    assert lines[4] == f"  perplexity per subword {report.perplexity:.3f}"
    without = dataclasses.replace(report, left_out=1234)
    assert without.describe().endswith(
        f"{lines[4]}  without 1,234 pairs that are too long or empty"
    )
    without = dataclasses.replace(report, tokenized=None)
    assert len(without.describe().splitlines()) == 4


def test_the_facts_for_the_run_card_are_plain_json(report):
    facts = json.loads(json.dumps(report.as_dict()))
    assert facts["bleu"] == report.scores.bleu
    assert facts["bleu_signature"] == report.scores.bleu_signature
    assert facts["chrf"] == report.scores.chrf
    assert facts["perplexity"] == report.perplexity
    assert facts["perplexity_left_out"] == 0
    assert facts["tokenized_bleu"] == report.tokenized.bleu
    assert facts["sentences"] == 11
    assert facts["step"] == 123
    assert facts["decoding"] == {"beam_size": 1, "alpha": 0.0, "extra_length": 2}
    assert "tokenized_bleu" not in dataclasses.replace(report, tokenized=None).as_dict()


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


def test_lines_with_an_empty_side_stay_in_their_places(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"a\n\nc\n \nb\n")
    target.write_bytes(b"A\nB\n\n\nE\n")
    corpus = open_corpus(files={"test": ([source], [target])})
    read = scoring.read_split(corpus, "test")
    assert list(read.source) == [b"a", b"", b"c", b" ", b"b"]
    assert list(read.references) == ["A", "B", "", "", "E"]
    assert any("3 of 5 lines have no text" in warning for warning in read.warnings)
    # What is trained on is without them, as before.
    chunks = list(corpus.chunks("test"))
    assert chunks == [([b"a", b"b"], [b"A", b"E"])]


def test_references_stand_beside_answers_as_answers_do():
    symbols = "(S (NP DT NN )NP (VP VBZ )VP . )S"
    trees = scoring.TestSet("trees", [b"The dog sleeps ."], [symbols])
    tree = "(S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .))"
    assert scoring.format_references(trees, task_for("tree")) == [tree]
    assert scoring.format_references(trees, task_for("de")) == [symbols]


def test_an_empty_split_is_refused(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"\n")
    target.write_bytes(b"\n")
    corpus = open_corpus(files={"test": ([source], [target])})
    with pytest.raises(UserError, match="The test split of text files has no sentence"):
        scoring.read_split(corpus, "test")


@pytest.mark.slow
def test_a_parser_that_has_learned_nothing_is_scored_all_the_same(random_trained):
    """Its trees are over the words of the test set, which are not split again."""
    model, vocabulary = random_trained.model, random_trained.vocabulary
    parser = trained_of(model, vocabulary, target_language="tree")
    sentences = [f"{line} Inc." for line in made_up_lines(7, seed=23)]
    symbols = [f"(S (NP{' NN' * line.count(' ')} )NP . )S" for line in sentences]
    parsed = scoring.TestSet("news", [line.encode() for line in sentences], symbols)
    report = scoring.score(parser, parsed, GREEDY)
    trees = [line.text for line in report.translations]
    words = [tree_words(next(read_trees([tree]))) for tree in trees]
    assert words == [line.split() for line in sentences]
    assert report.scores == score_trees(sentences, trees, symbols)
    assert report.tokenized is None
    lines = report.describe().splitlines()
    assert lines[1].startswith("  F1 ")
    assert lines[-1].startswith("  perplexity per subword ")
    facts = json.loads(json.dumps(report.as_dict()))
    assert facts["f1_with_right_tags"] == report.scores.headline[1]
