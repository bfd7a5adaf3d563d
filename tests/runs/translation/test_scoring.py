"""Evaluation scores of a model: perplexity, BLEU, tokenized BLEU, F1 of a parser."""

import dataclasses
import json
import math
import re

import pytest

from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.evaluation.compound_bleu import tokenized_bleu
from t2t_keras.input_pipeline.corpora.corpus import open_corpus
from t2t_keras.parsing.linearization import tree_words
from t2t_keras.parsing.tree_scores import score_trees
from t2t_keras.parsing.trees import read_trees
from t2t_keras.runs import translators
from t2t_keras.runs.tasks import task_for
from t2t_keras.runs.translation import scoring
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.translation.translator import TranslatedLine, Translation
from tests.runs.random_model import (
    CONFIG,
    as_trained_model,
    make_scorer,
    random_lines,
    random_model,
    random_vocabulary,
)

GREEDY = DecodingConfig(beam_size=1, alpha=0.0, extra_length=2)


@pytest.fixture(scope="module")
def random_trained_model():
    vocabulary = random_vocabulary()
    return as_trained_model(random_model(vocabulary, num_layers=1), vocabulary)


@pytest.fixture(scope="module")
def test_set():
    source = [line.encode() for line in random_lines(11, seed=21)]
    return scoring.TestSet("news", source, random_lines(11, seed=22, longest=4))


@pytest.fixture(scope="module")
def scored(random_trained_model, test_set):
    """The evaluation result and the reported progress."""
    done = []
    return scoring.score(
        random_trained_model, test_set, GREEDY, on_progress=done.append
    ), done


@pytest.fixture
def result(scored):
    return scored[0]


def test_perplexity_is_computed_on_the_references(random_trained_model, test_set):
    """Including sentences longer than those of training."""
    read = make_scorer(random_trained_model.model)
    encode = random_trained_model.vocabulary.encode
    long = " ".join(["grün"] * 60)
    assert len(encode(long)) > CONFIG.data.max_length
    source = [*test_set.source, long.encode()]
    references = [*test_set.references, long]
    pairs = [(encode(s), encode(r)) for s, r in zip(source, references, strict=True)]
    log_probs = [read(*pair) for pair in pairs]
    num_tokens = [len(target) for _, target in pairs]
    perplexity, left_out = scoring.perplexity(
        random_trained_model, scoring.TestSet("", source, references)
    )
    assert left_out == 0
    expected = math.exp(-math.fsum(log_probs) / sum(num_tokens))
    assert perplexity == pytest.approx(expected, rel=1e-5)
    # A mean of sentence means, which overweights short sentences, differs.
    means = [-p / n for p, n in zip(log_probs, num_tokens, strict=True)]
    assert abs(math.exp(math.fsum(means) / len(means)) - expected) > 1e-2 * expected


def test_pairs_left_out_of_perplexity_are_counted(test_set):
    """With learned positions for 24 subwords, longer pairs are left out."""
    vocabulary = random_vocabulary()
    encode = vocabulary.encode
    trained = as_trained_model(
        random_model(vocabulary, num_layers=1, learned_positions=24), vocabulary
    )
    pairs = list(zip(test_set.source, test_set.references, strict=True))
    pairs += [(b"a", "a " * 24), (b"a " * 24, "a"), (b"", "a"), (b"a", " ")]
    fits = [all(1 < len(encode(side)) <= 24 for side in pair) for pair in pairs]
    assert sum(fits) > 4

    def compute(subset):
        sources, references = zip(*subset, strict=True)
        return scoring.perplexity(
            trained, scoring.TestSet("", list(sources), list(references))
        )

    alone, _ = compute([pair for pair, fit in zip(pairs, fits, strict=True) if fit])
    assert compute(pairs) == (pytest.approx(alone, rel=1e-6), len(fits) - sum(fits))
    assert compute(pairs[-4:]) == (None, 4)


@pytest.mark.slow
def test_without_a_perplexity_the_other_scores_remain(result):
    result = dataclasses.replace(result, perplexity=None, left_out=11)
    assert result.describe().splitlines()[4] == (
        "  perplexity per subword none  without 11 pairs that are too long or empty"
    )
    assert result.as_dict()["perplexity"] is None
    assert result.as_dict()["bleu"] == result.scores.as_dict()["bleu"]


def test_a_result_holds_the_scores_of_its_translations(result, test_set):
    texts = [line.text for line in result.translations]
    assert result.scores == corpus_scores(texts, test_set.references)
    assert result.tokenized == tokenized_bleu(
        texts, test_set.references, language="fr", split_compounds=False
    )
    assert (result.name, result.step, result.decoding) == ("news", 123, GREEDY)
    assert result.seconds > 0


@pytest.fixture
def replace_translations(monkeypatch):
    """Replaces every translation by a given text."""

    def replace_translations(text):
        class Echo:
            def translate(self, lines, on_progress):
                return [TranslatedLine((Translation(text, -1.0, -1.0, 2),))]

        monkeypatch.setattr(translators, "build_translator", lambda *_, **__: Echo())
        monkeypatch.setattr(scoring, "perplexity", lambda *_: (1.0, 0))

    return replace_translations


def test_curly_quotes_may_count_as_straight_ones(
    random_trained_model, replace_translations
):
    """Only for the paper's metric: sacreBLEU has its own rules."""
    replace_translations("Er sagte: „Das Haus ist rot.“")
    trained = as_trained_model(
        random_trained_model.model,
        random_trained_model.vocabulary,
        target_language="de",
    )
    one = scoring.TestSet("", [b"x"], ['Er sagte: "Das Haus ist rot."'])
    plain, ascii_quotes = (
        scoring.score(trained, one, GREEDY, ascii_quotes=on) for on in (False, True)
    )
    assert plain.tokenized.bleu < 90
    assert ascii_quotes.tokenized.bleu == pytest.approx(100)
    assert plain.scores == ascii_quotes.scores


def test_the_tokenizer_is_the_languages_or_a_given_one(
    random_trained_model, replace_translations
):
    text = "今天天气很好。我们去公园吧。"
    replace_translations(text)
    parts = random_trained_model.model, random_trained_model.vocabulary
    one = scoring.TestSet("", [b"x"], [text])
    chinese = as_trained_model(*parts, target_language="zh")
    for tokenize, tokenizer, bleu, warning in (
        (None, "zh", 100, "^There is no tokenized BLEU: .* 'zh'"),
        ("13a", "13a", 0, "^BLEU by the tokenizer 13a .*=zh separates them"),
    ):
        scored = scoring.score(chinese, one, GREEDY, tokenize=tokenize)
        assert f"|tok:{tokenizer}|" in scored.scores.bleu_signature
        assert scored.scores.bleu == pytest.approx(bleu)
        assert scored.tokenized is None
        warnings = scoring.warnings_of_scores(chinese, one, tokenize)
        assert re.search(warning, warnings[0])
    parser = as_trained_model(*parts, target_language="tree")
    assert scoring.warnings_of_scores(parser, one) == []
    for trained, tokenize, message in (
        (chinese, "zhh", "--tokenize must be one of .* Did you mean zh"),
        (parser, "zh", "--tokenize is for BLEU, by which this model is not scored"),
    ):
        with pytest.raises(UserError, match=message):
            scoring.score(trained, one, GREEDY, tokenize=tokenize)


def test_compounds_are_split_only_in_german(random_trained_model, replace_translations):
    replace_translations("Haus-Bau")

    def score_tokenized(language):
        trained = as_trained_model(
            random_trained_model.model,
            random_trained_model.vocabulary,
            target_language=language,
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
    assert {language: score_tokenized(language) for language in expected} == expected
    assert score_tokenized("tlh") is None


def test_progress_is_reported(scored):
    _, done = scored
    assert sum(done) == 11


def test_a_result_is_described(result):
    lines = result.describe().splitlines()
    assert len(lines) == 5
    assert lines[0].startswith(
        f"news: 11 sentences, {result.checkpoint}, beam 1, alpha 0, "
    )
    assert lines[1].startswith(f"  BLEU {result.scores.bleu:.2f}  BLEU|nrefs:1|")
    assert lines[2].startswith(f"  chrF {result.scores.chrf:.2f}  chrF2|nrefs:1|")
    assert lines[3].startswith("  tokenized BLEU ")
    assert lines[4] == f"  perplexity per subword {result.perplexity:.3f}"
    without = dataclasses.replace(result, left_out=1234)
    assert without.describe().endswith(
        f"{lines[4]}  without 1,234 pairs that are too long or empty"
    )
    without = dataclasses.replace(result, tokenized=None)
    assert len(without.describe().splitlines()) == 4


def test_the_entry_for_the_run_card_is_plain_json(result):
    entry = json.loads(json.dumps(result.as_dict()))
    assert entry["bleu"] == result.scores.bleu
    assert entry["bleu_signature"] == result.scores.bleu_signature
    assert entry["chrf"] == result.scores.chrf
    assert entry["perplexity"] == result.perplexity
    assert entry["perplexity_left_out"] == 0
    assert entry["tokenized_bleu"] == result.tokenized.bleu
    assert entry["sentences"] == 11
    assert entry["step"] == 123
    assert entry["decoding"] == {"beam_size": 1, "alpha": 0.0, "extra_length": 2}
    assert "tokenized_bleu" not in dataclasses.replace(result, tokenized=None).as_dict()


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
    # Training data leaves these lines out.
    chunks = list(corpus.chunks("test"))
    assert chunks == [([b"a", b"b"], [b"A", b"E"])]


def test_references_are_formatted_like_answers():
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
def test_an_untrained_parser_is_scored(random_trained_model):
    """Its trees have the words of the test set, which are not split again."""
    model, vocabulary = random_trained_model.model, random_trained_model.vocabulary
    parser = as_trained_model(model, vocabulary, target_language="tree")
    sentences = [f"{line} Inc." for line in random_lines(7, seed=23)]
    symbols = [f"(S (NP{' NN' * line.count(' ')} )NP . )S" for line in sentences]
    parsed = scoring.TestSet("news", [line.encode() for line in sentences], symbols)
    result = scoring.score(parser, parsed, GREEDY)
    trees = [line.text for line in result.translations]
    words = [tree_words(next(read_trees([tree]))) for tree in trees]
    assert words == [line.split() for line in sentences]
    assert result.scores == score_trees(sentences, trees, symbols)
    assert result.tokenized is None
    lines = result.describe().splitlines()
    assert lines[1].startswith("  F1 ")
    assert lines[-1].startswith("  perplexity per subword ")
    entry = json.loads(json.dumps(result.as_dict()))
    assert entry["f1_with_right_tags"] == result.scores.headline[1]
