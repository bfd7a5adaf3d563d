"""Imports of M2M100 and NLLB against the NumPy reference; languages; refusals."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from t2t_keras import Run
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.decoding.transformer_search import search_translations, target_log_probs
from t2t_keras.errors import UserError
from t2t_keras.interop.formats import read_model
from t2t_keras.interop.known_positions import sinusoids
from t2t_keras.interop.trimming import trim_vocabulary
from t2t_keras.runs import translators
from t2t_keras.runs.training.imported_run import load_model, write_model_dir
from t2t_keras.text.stored_vocabulary import vocabulary_from_bytes
from t2t_keras.text.vocabulary import EOS_ID, UNK_ID
from tests.interop.m2m100_files import (
    OPTIONS,
    TAGS,
    arrays_of,
    write_m2m100,
    write_nllb,
)
from tests.interop.small_models import (
    SIZES,
    TOLERANCE,
    V,
    max_error,
    small_weights,
)
from tests.reference import transformer_np

PAIR = ("de", "en")
LINES = ("ab a", "", "  a", "b\u0301ab", "xyz ab", "aabb abab a")


def convert(folder: Path, path: Path, pair=PAIR):
    imported = read_model("transformers", folder, languages=pair)
    return write_model_dir(imported, path, "transformers", languages=pair)


@pytest.fixture(scope="module")
def weights():
    return small_weights(OPTIONS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, weights):
    return write_m2m100(tmp_path_factory.mktemp("m2m100") / "m", weights)


@pytest.fixture(scope="module")
def imported(folder):
    return read_model("transformers", folder, languages=PAIR)


@pytest.fixture(scope="module")
def model(imported):
    return load_model(imported, imported.config(PAIR))


def test_logits_are_those_of_the_reference(model, weights) -> None:
    assert max_error(model, weights) < TOLERANCE


@pytest.mark.parametrize("adds", [True, False])
def test_nllb_of_its_newer_files_alone(tmp_path, weights, adds) -> None:
    folder = write_nllb(tmp_path / "n", weights, adds=adds, legacy_behaviour=True)
    nllb = read_model("transformers", folder)
    assert max_error(load_model(nllb, nllb.config(PAIR)), weights) < TOLERANCE
    assert nllb.languages == ("deu_Latn", "eng_Latn")
    assert any("legacy_behaviour" in warning for warning in nllb.warnings)
    # Of merges, where the unigram model has scores.
    pieces = nllb.vocabulary.source.pieces(nllb.vocabulary.source.encode("ab a b"))
    assert nllb.vocabulary.decode(nllb.vocabulary.encode("ab a b")) == "ab a b"
    assert pieces == ["deu_Latn", "\u2581ab", "\u2581a", "\u2581", "b", "</s>"]


def test_texts_begin_with_their_languages(imported) -> None:
    vocabulary = imported.vocabulary
    de, en = TAGS["de"], TAGS["en"]
    for side, tag in ((vocabulary.source, de), (vocabulary, en)):
        ids = [side.encode(line) for line in LINES]
        assert side.encode("") == [EOS_ID]
        assert [row[0] for row in ids if len(row) > 1] == [tag] * 5
        assert any(UNK_ID in row for row in ids)
        texts = tf.constant([line.encode() for line in LINES])
        assert side.encode_in_graph(texts).to_list() == ids
    # Languages have no text, wherever a model puts them.
    ids = [en, *vocabulary.encode("ab a")[1:-1], de, EOS_ID]
    assert vocabulary.decode(ids) == "ab a"
    assert vocabulary.decode_in_graph(tf.constant([ids])).numpy() == [b"ab a"]
    assert vocabulary.marked_pieces(ids)[:2] == ["", "\u2581ab"]


def test_another_pair_of_languages(imported) -> None:
    vocabulary = imported.vocabulary
    other = vocabulary.with_languages("en", None)
    assert vocabulary.source.encode("a")[0] == TAGS["de"]
    assert (other.source.encode("a")[0], other.tag_id) == (TAGS["en"], TAGS["en"])
    assert other.with_languages("de", "en").to_bytes() == vocabulary.to_bytes()
    assert other.sha256 != vocabulary.sha256
    for copy in (
        vocabulary_from_bytes(other.to_bytes()),
        pickle.loads(pickle.dumps(other)),
    ):
        assert copy.languages == other.languages
        source = pickle.loads(pickle.dumps(copy.source))
        assert source.encode("ab") == other.source.encode("ab")
        assert copy.source.encode("ab") == other.source.encode("ab")
    codes = tf.constant(["", "de", "xx", "en"])
    assert other.tags_in_graph(codes).numpy().tolist() == [
        TAGS["en"],
        TAGS["de"],
        0,
        TAGS["en"],
    ]
    texts = tf.constant(["a", "", "b"])
    tags = tf.constant([TAGS["de"], TAGS["de"], TAGS["en"]])
    found = vocabulary.encode_in_graph(texts, tags).to_list()
    assert [row[0] for row in found] == [TAGS["de"], EOS_ID, TAGS["en"]]


def their_log_probs(weights, source: list[int], target: list[int]) -> np.ndarray:
    """Returns the log probability of each target token by the reference, [T]."""
    row = np.array(source)
    memory = transformer_np.encode_padded(row, weights)
    inputs = np.array([0, *target[:-1]])
    logits = transformer_np.logits(
        transformer_np.decode(inputs, memory, weights, row), weights
    )
    total = np.log(np.exp(logits).sum(axis=1))
    return logits[np.arange(len(target)), target] - total


def assert_best(result, row, weights, source, every, count) -> None:
    """Asserts that a row has the best of all translations, in order."""
    log_probs = [their_log_probs(weights, source, t)[1:].sum() for t in every]
    scores = [
        log_prob / len(target) ** 0.8
        for log_prob, target in zip(log_probs, every, strict=True)
    ]
    order = np.argsort(scores)[::-1]
    found = result.tokens[row].numpy().tolist()
    for place, best in enumerate(order[:count]):
        target = every[best]
        assert found[place][: len(target)] == target
        for tensor, values in ((result.scores, scores), (result.log_probs, log_probs)):
            assert float(tensor[row, place]) == pytest.approx(values[best], abs=1e-4)


# Sources of two languages, and the languages of their translations.
SOURCES = ([TAGS["de"], 9, 5, EOS_ID], [TAGS["en"], 4, EOS_ID])
FIRST = (TAGS["en"], TAGS["de"])


def search_after_first(model, length, growing, beam=2 * V, **options):
    settings = BeamSearchSettings(beam_size=beam, length_penalty="power", alpha=0.8)
    row_options = RowOptions(
        first_tokens=tf.constant(FIRST),
        max_lengths=tf.constant([length, length]),
        **options,
    )
    sources = tf.ragged.constant(SOURCES).to_tensor()
    return search_translations(
        model, sources, settings, 5, row_options, growing=growing
    )


def test_a_search_finds_the_best_after_the_language(model, weights) -> None:
    """Against all translations of at most one token; rows in other languages."""
    for growing in (True, False):
        result = search_after_first(model, 3, growing)
        for row, source in enumerate(SOURCES):
            every = [[FIRST[row], EOS_ID]]
            every += [[FIRST[row], i, EOS_ID] for i in range(2, V)]
            assert_best(result, row, weights, source, every, 5)


def test_terms_follow_the_language(model, weights) -> None:
    """Against all translations with them of at most two tokens."""
    terms = tf.constant([[[5], [0]], [[4], [6]]])
    for growing in (True, False):
        result = search_after_first(model, 4, growing, 4 * V, terms=terms)
        every = [[FIRST[0], 5, EOS_ID]]
        every += [[FIRST[0], 5, i, EOS_ID] for i in range(2, V)]
        every += [[FIRST[0], i, 5, EOS_ID] for i in range(2, V) if i != 5]
        assert_best(result, 0, weights, SOURCES[0], every, 5)
        both = [[FIRST[1], 4, 6, EOS_ID], [FIRST[1], 6, 4, EOS_ID]]
        assert_best(result, 1, weights, SOURCES[1], both, 2)
        # There is no other, and no room for two terms beside the language.
        assert result.lengths[1].numpy().tolist() == [4, 4, *[0] * (4 * V - 2)]
        short = search_after_first(model, 3, growing, terms=terms)
        assert_best(short, 1, weights, SOURCES[1], [[FIRST[1], 4, EOS_ID]], 1)


def test_scores_may_leave_out_the_language(model) -> None:
    sources = tf.ragged.constant(SOURCES).to_tensor()
    scored = target_log_probs(
        model, sources, tf.constant([[13, 5, 1], [1, 0, 0]])
    ).numpy()
    given = target_log_probs(
        model,
        sources,
        tf.constant([[13, 5, 1], [1, 0, 0]]),
        first_is_given=True,
    ).numpy()
    assert given[0].tolist() == [0.0, *scored[0, 1:]]
    assert given[1].tolist() == scored[1].tolist()


def test_a_limit_leaves_room_for_the_language(model) -> None:
    source = tf.constant([[TAGS["de"], 9, EOS_ID], [EOS_ID, 0, 0]])
    options = RowOptions(
        first_tokens=tf.constant([TAGS["en"]] * 2), max_lengths=tf.constant([1, 1])
    )
    result = search_translations(model, source, BeamSearchSettings(), 5, options)
    assert result.tokens[0, 0].numpy().tolist()[:2] == [TAGS["en"], EOS_ID]
    # An empty source is empty in any language.
    assert result.tokens[1, 0].numpy().tolist()[:1] == [EOS_ID]
    assert np.isfinite(result.scores[:, 0]).all()


@pytest.mark.slow
def test_a_run_translates_between_the_languages_of_a_call(
    folder, tmp_path, monkeypatch
) -> None:
    """All languages have one traced search."""
    traced = []
    search = translators.search_translations

    def count(*arguments, **options):
        traced.append(arguments)
        return search(*arguments, **options)

    monkeypatch.setattr(translators, "search_translations", count)
    convert(folder, tmp_path / "run")
    run = Run(tmp_path / "run")
    assert run.settings.data.source_language == "de"
    lines = ["ab a", "", "b"]
    scores = {}
    for pair in (PAIR, ("en", "de"), ("en", "ja")):
        other = run.for_languages(*pair)
        translated = [*other.translate(lines, beam_size=2, prefixes=["", "", "ab"])]
        assert translated[1].text == ""
        assert translated[2].text.startswith("ab")
        assert other.trained("latest").languages == pair
        # The score of a translation does not count the language.
        best = translated[0].hypotheses[0]
        (score,) = other.score([(lines[0], best.text)])
        assert score.log_prob == pytest.approx(best.log_prob, abs=1e-4)
        assert len(score.token_log_probs) == best.num_tokens
        scores[pair] = score.log_prob
    assert len(set(scores.values())) == 3
    assert len(traced) == 1
    with pytest.raises(UserError, match=r"--target_language must be a language of the"):
        next(run.for_languages(None, "dee").translate(lines))
    with pytest.raises(UserError, match=r"The corpus of the run .* is from de to en"):
        run.for_languages("en", "de").evaluate()


def test_a_vocabulary_of_some_text(imported, model, tmp_path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a ab\nab\n")
    trimmed = trim_vocabulary(imported, [text])
    old, new = imported.vocabulary, trimmed.vocabulary
    pieces = new.pieces(range(new.size))
    assert {"\u2581a", "\u2581ab", "a", "b", "__de__"} <= {*pieces}
    # Not "ab" without a space, and not what is no piece of a text.
    assert new.size < old.size
    assert "ab" not in pieces
    rows = [old.pieces(range(old.size)).index(piece) for piece in pieces]
    assert trimmed.original_ids == [imported.original_ids[i] for i in rows]
    for line in ("a ab", "ab", "", "ab a a"):
        for sides in ((old, new), (old.source, new.source)):
            assert [rows[i] for i in sides[1].encode(line)] == sides[0].encode(line)
    # Other text is split into kept pieces.
    assert new.pieces(new.encode("bab"))[1:-1] == ["\u2581", "b", "a", "b"]
    texts = tf.constant(["bab", "xa ab"])
    assert new.encode_in_graph(texts).to_list() == [
        new.encode("bab"),
        new.encode("xa ab"),
    ]
    smaller = load_model(trimmed, trimmed.config(PAIR))
    ids = np.array([new.source.encode("a ab")])
    logits = [
        np.array(each({"encoder_input_tokens": i, "decoder_input_tokens": i}))
        for each, i in ((smaller, ids), (model, np.array(rows)[ids]))
    ]
    # Not to the last bit: products of matrices of other widths round otherwise.
    np.testing.assert_allclose(logits[0], logits[1][..., rows], rtol=1e-5, atol=1e-6)
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(UserError, match=r"empty.txt \(--keep_vocabulary\) has no text"):
        trim_vocabulary(imported, [empty])


def change(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text()) | changes
    path.write_text(
        json.dumps({name: v for name, v in content.items() if v is not None})
    )


@pytest.mark.parametrize(
    ("file", "changes", "pair", "message"),
    [
        ("config.json", {"model_type": "mbart"}, PAIR, "Received: mbart"),
        ("config.json", {"scale_embedding": False}, PAIR, "not scaled by sqrt"),
        ("config.json", {"pad_token_id": 0}, PAIR, "another number of padding"),
        ("config.json", {"vocab_size": 17}, PAIR, "17 .*17|rows of the model"),
        ("config.json", {"decoder_start_token_id": 1}, PAIR, "2 is </s>. Received: 1"),
        ("config.json", {}, (None, None), "between 8 languages. Give the pair"),
        ("config.json", {}, ("de", "fr"), "--target_language must be a language"),
        ("vocab.json", {"<unk>": 12}, PAIR, "must have <unk> with the id 3"),
        ("vocab.json", {"a": 6}, PAIR, "It belongs to another model"),
        ("vocab.json", {"a": "5"}, PAIR, "ids, .'5'. among them"),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"5": {"content": "<x>"}}},
            PAIR,
            "the id 5 for a and for the added token <x>",
        ),
        (
            "tokenizer_config.json",
            {"tokenizer_class": "SMALL100Tokenizer"},
            PAIR,
            "has a SMALL100Tokenizer, which may mark languages in another way",
        ),
        ("tokenizer_config.json", {"language_codes": "x"}, PAIR, "has no languages"),
    ],
)
def test_what_cannot_be_imported_is_refused(
    tmp_path, weights, file, changes, pair, message
) -> None:
    folder = write_m2m100(tmp_path / "m", weights)
    change(folder / file, **changes)
    with pytest.raises(UserError, match=message):
        read_model("transformers", folder, languages=pair)


def test_the_pair_of_the_tokenizers_settings(tmp_path, weights) -> None:
    folder = write_m2m100(tmp_path / "m", weights, src_lang="cs", tgt_lang="is")
    assert read_model("transformers", folder).languages == ("cs", "is")
    # The first token that every output of a model has is its language.
    change(folder / "config.json", forced_bos_token_id=TAGS["en"])
    imported = read_model("transformers", folder)
    assert imported.languages == ("cs", "en")
    assert not any("forced_bos" in warning for warning in imported.warnings)
    change(folder / "config.json", forced_bos_token_id=0)
    imported = read_model("transformers", folder)
    assert any("forced_bos" in warning for warning in imported.warnings)
    # A token that was added is no language, nor is a learned piece.
    added = {"content": "<b>"}
    change(folder / "tokenizer_config.json", added_tokens_decoder={"18": added})
    imported = read_model("transformers", folder)
    assert any("no text: <b>" in warning for warning in imported.warnings)
    assert len(imported.vocabulary.languages.pieces) == 8
    (folder / "sentencepiece.bpe.model").unlink()
    with pytest.raises(UserError, match=r"Cannot read .*sentencepiece.bpe.model"):
        read_model("transformers", folder)


def test_copies_that_older_releases_stored(tmp_path, weights) -> None:
    folder = write_m2m100(tmp_path / "m", weights)
    arrays = arrays_of(weights)
    shared = arrays["model.shared.weight"]
    for name in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        arrays[f"{name}.weight"] = shared.copy()
    table = sinusoids(14, SIZES.d_model, "halves_t2t").astype("f")
    table[1] = 0.0
    for stack in ("encoder", "decoder"):
        arrays[f"model.{stack}.embed_positions.weights"] = table.copy()
    safetensors.numpy.save_file(arrays, folder / "model.safetensors")
    read_model("transformers", folder, languages=PAIR)
    arrays["lm_head.weight"][V // 2] += 0.5
    safetensors.numpy.save_file(arrays, folder / "model.safetensors")
    with pytest.raises(UserError, match=r"lm_head.weight in .* has other numbers"):
        read_model("transformers", folder, languages=PAIR)


def test_codes_that_name_a_language_of_nllb(tmp_path, weights) -> None:
    folder = write_nllb(tmp_path / "n", weights)
    languages = read_model("transformers", folder, languages=("de", "en")).languages
    assert languages == ("deu_Latn", "eng_Latn")
    for code in ("zh-hant", "ZHO_Hant", "zh_Hant"):
        pair = read_model("transformers", folder, languages=("de", code)).languages
        assert pair == ("deu_Latn", "zho_Hant")
    with pytest.raises(UserError, match="must be one of zho_Hans, zho_Hant"):
        read_model("transformers", folder, languages=("de", "zh"))
    with pytest.raises(UserError, match=r"a language of the model: .* de-Cyrl"):
        read_model("transformers", folder, languages=("en", "de-Cyrl"))
