"""Export to CTranslate2, an independent implementation: equal scores and translations.

CTranslate2 has another length penalty (length to the power of alpha), so both search
without one. Two differences remain: of a step's 2W candidates, CTranslate2 lets only
those of rank 1 to W end; and at the length limit it cuts a translation, where this
project ends it with EOS. Neither matters where a model is confident. Elsewhere, a plain
search with one rule finds our translations, and with the other those of CTranslate2.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType

import ctranslate2
import numpy as np
import pytest
import sentencepiece

from t2t_keras.errors import UserError
from t2t_keras.interop.formats import read_model
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models, translators
from t2t_keras.runs.export.ctranslate2 import export_ctranslate2
from t2t_keras.runs.models import TrainedModel
from t2t_keras.runs.training.imported_run import write_model_dir
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.translation.translator import Translator
from tests.in_process import run_program
from tests.runs.random_model import (
    CONFIG,
    as_trained_model,
    make_next_scorer,
    make_scorer,
    random_lines,
    random_model,
    random_vocabulary,
)

# Far more than a trained model needs.
EXTRA_LENGTH = 40
WIDTH = 4
EOS = 1


def ctranslate2_answers(
    directory: Path, pieces: Sequence[Sequence[str]], limit: int = 256
) -> list[tuple[list[str], float]]:
    """Returns the best hypothesis of each source and its log p; not cut, it has EOS."""
    translator = ctranslate2.Translator(str(directory), intra_threads=1)
    results = translator.translate_batch(
        [list(source) for source in pieces],
        beam_size=WIDTH,
        length_penalty=0,
        max_decoding_length=limit,
        # By default, translations are never empty.
        min_decoding_length=0,
        max_batch_size=32,
        return_scores=True,
        return_end_token=True,
    )
    return [(result.hypotheses[0], result.scores[0]) for result in results]


def score_pairs(
    directory: Path, trained: TrainedModel, pairs: list[tuple[list[int], list[int]]]
) -> list[float]:
    """Returns CTranslate2's log p of targets, both sides as ids without EOS."""
    pieces = trained.vocabulary.pieces
    translator = ctranslate2.Translator(str(directory), intra_threads=1)
    results = translator.score_batch(
        [pieces(source) for source, _ in pairs],
        [pieces(target) for _, target in pairs],
    )
    return [sum(result.log_probs) for result in results]


@pytest.fixture(scope="module")
def hostile() -> TrainedModel:
    """A random model with odd head sizes and random biases, gammas and betas."""
    vocabulary = random_vocabulary()
    return as_trained_model(random_model(vocabulary), vocabulary)


@pytest.fixture(scope="module")
def pairs(hostile: TrainedModel) -> list[tuple[list[int], list[int]]]:
    """Ids of sources and unrelated targets, of lengths 0 to 30."""
    generator = np.random.default_rng(3)
    size = hostile.vocabulary.size
    return [
        tuple(generator.integers(3, size, length).tolist() for length in lengths)
        for lengths in ((1, 0), (1, 5), (9, 1), (17, 30), (30, 12))
    ]


def score_all(trained: TrainedModel, pairs) -> list[float]:
    read = make_scorer(trained.model)
    return [read([*source, 1], [*target, 1]) for source, target in pairs]


def test_it_computes_the_same_probabilities(hostile, pairs, tmp_path):
    directory = export_ctranslate2(hostile, tmp_path)
    log_probs = score_pairs(directory, hostile, pairs)
    np.testing.assert_allclose(
        log_probs, score_all(hostile, pairs), rtol=1e-5, atol=1e-5
    )


MARIAN = MappingProxyType(
    {
        "activation": "swish",
        "position_layout": "halves_t2t",
        "output_bias": True,
        "attention_bias": True,
        "decoder_layers": 1,
    }
)
PRE_NORM = MappingProxyType(
    {
        "normalization": "pre",
        "activation": "gelu",
        "layer_norm_epsilon": 1e-3,
        "position_layout": "halves",
        "first_position": 2,
        "tie_output": False,
        "decoder_start": "</s>",
        "encoder_layers": 3,
        "share_embeddings": False,
        "source_eos": False,
    }
)
LEARNED = MappingProxyType(
    {
        "normalization": "pre",
        "learned_positions": 40,
        "first_position": 2,
        "attention_bias": True,
        "decoder_start": "<unk>",
    }
)


@pytest.mark.parametrize(
    "options",
    [MARIAN, *(pytest.param(o, marks=pytest.mark.slow) for o in (PRE_NORM, LEARNED))],
    ids=lambda each: "",
)
def test_other_architectures_have_the_same_probabilities(pairs, tmp_path, options):
    vocabulary = random_vocabulary()
    trained = as_trained_model(random_model(vocabulary, **options), vocabulary)
    directory = export_ctranslate2(trained, tmp_path)
    np.testing.assert_allclose(
        score_pairs(directory, trained, pairs),
        score_all(trained, pairs),
        rtol=1e-5,
        atol=1e-5,
    )


def test_an_export_can_be_imported(tmp_path):
    vocabulary = random_vocabulary()
    options = {"activation": "gelu", "position_layout": "halves", "first_position": 2}
    model = random_model(vocabulary, **options, normalization="pre", output_bias=True)
    directory = export_ctranslate2(as_trained_model(model, vocabulary), tmp_path)
    again = write_model_dir(
        read_model("ctranslate2", directory), tmp_path / "run", "ctranslate2"
    )
    same = ("tie_output", "share_embeddings", "source_eos", "normalization")
    for name in (*options, *same):
        assert again.sizes[name] == model.sizes[name], name
    # CTranslate2 has one size of a head, for which ours were padded.
    assert (again.sizes["d_k"], again.sizes["d_v"]) == (7, 7)
    tokens = np.random.default_rng(4).integers(1, vocabulary.size, size=(3, 8))
    tokens[1, 5:] = 0
    batch = {"encoder_input_tokens": tokens, "decoder_input_tokens": tokens[:, ::-1]}
    np.testing.assert_allclose(again(batch), model(batch), atol=1e-4)


def test_an_activation_that_it_does_not_have_is_refused(hostile, tmp_path):
    model = Transformer(**hostile.model.sizes)
    model.sizes["activation"] = "mish"  # as a release with more choices could have it
    trained = dataclasses.replace(hostile, model=model)
    message = "no activation mish, only relu, swish, gelu.*SavedModel"
    with pytest.raises(UserError, match=message):
        export_ctranslate2(trained, tmp_path / "base")


def test_restricted_attention_cannot_be_expressed(hostile, tmp_path):
    model = models.build_model(
        dataclasses.replace(
            CONFIG,
            model=ModelConfig(
                num_layers=1, d_model=8, d_ff=8, num_heads=2, encoder_neighborhood=5
            ),
        ),
        hostile.vocabulary.size,
    )
    trained = dataclasses.replace(hostile, model=model)
    with pytest.raises(UserError, match=r"--encoder_neighborhood=5.*SavedModel"):
        export_ctranslate2(trained, tmp_path / "base")
    assert not (tmp_path / "base").exists()


@pytest.fixture(scope="module")
def ours(trained) -> Translator:
    config = DecodingConfig(beam_size=WIDTH, alpha=0.0, extra_length=EXTRA_LENGTH)
    return translators.build_translator(trained.model, trained.vocabulary, config)


@pytest.fixture(scope="module")
def theirs(trained, tmp_path_factory) -> Path:
    return export_ctranslate2(trained, tmp_path_factory.mktemp("ctranslate2"))


@pytest.fixture(scope="module")
def piece_ids(trained) -> dict[str, int]:
    size = trained.vocabulary.size
    return {piece: i for i, piece in enumerate(trained.vocabulary.pieces(range(size)))}


def test_it_finds_the_same_translations(reverse_run, trained, ours, theirs, piece_ids):
    sources = [source for source, _ in reverse_run.held_out[:300]]
    lines = ours.translate([source.encode() for source in sources])
    ids = [trained.vocabulary.encode(source) for source in sources]
    pieces = [trained.vocabulary.pieces(source[:-1]) for source in ids]
    found = ctranslate2_answers(theirs, pieces)
    read = make_scorer(trained.model)
    same = 0
    for source, line, (answer, log_prob) in zip(ids, lines, found, strict=True):
        target = [piece_ids[piece] for piece in answer]
        assert target[-1] == EOS, "a translation that was cut compares with nothing"
        assert log_prob == pytest.approx(read(source, target), rel=1e-4, abs=1e-4)
        best = line.hypotheses[0].log_prob
        if line.text == trained.vocabulary.decode(target):
            same += 1
            assert best == pytest.approx(log_prob, rel=1e-4, abs=1e-4)
        else:
            # It looks at less, see the top of this file.
            assert best > log_prob, (source, line, target)
    assert same >= 0.99 * len(sources)
    assert {line.text for line in lines[:3]} == {r for _, r in reverse_run.held_out[:3]}


def test_the_program_writes_versions_with_the_vocabulary(own_run):
    done = run_program("export", f"--model_dir={own_run.path}", "--format=ctranslate2")
    assert (done.status, done.stderr) == (0, "")
    directory = own_run.path / "export_ctranslate2" / "1"
    assert done.lines == [f"exported step 500 to {directory}"]
    done = run_program(
        "export",
        f"--model_dir={own_run.path}",
        "--format=ctranslate2",
        "--quantization=int8",
        "--beam_size=2",
    )
    assert "warning: --beam_size has no effect: settings of" in done.stderr
    names = {path.name for path in directory.parent.iterdir()}
    assert names == {"1", "2"}
    sizes = [(directory.parent / n / "model.bin").stat().st_size for n in ("1", "2")]
    assert sizes[1] < 0.6 * sizes[0]
    # The directory alone is enough to translate.
    processor = sentencepiece.SentencePieceProcessor()
    for version in ("1", "2"):
        folder = directory.parent / version
        processor.load(str(folder / "vocabulary.model"))
        source = processor.encode("a b c d", out_type=str)
        (answer,) = ctranslate2_answers(folder, [source])
        assert processor.decode_pieces(answer[0][:-1]) == "d c b a"


def plain_search(
    next_log_probs: Callable[[tuple[int, ...]], np.ndarray],
    limit: int,
    ranks: int,
    cut: bool,
) -> tuple[tuple[int, ...], float]:
    """Returns the best ids of a beam search without a cache, and their log p.

    Args:
        next_log_probs: Function of a prefix that returns log p [V] of the next id.
        limit: Maximum number of ids, EOS included.
        ranks: Number of a step's best candidates that may end.
        cut: Whether candidates of the last step count without EOS, or all must end.
    """
    live, finished = [((), 0.0)], []
    for position in range(limit):
        last = position + 1 == limit
        candidates = [
            ((*ids, word), log_prob + row[word])
            for ids, log_prob in live
            for row in [next_log_probs(ids)]
            for word in ([EOS] if last and not cut else range(EOS, len(row)))
        ]
        candidates = sorted(candidates, key=lambda one: -one[1])[: 2 * WIDTH]
        finished += [
            one for one in candidates[:ranks] if one[0][-1] == EOS or (last and cut)
        ]
        live = [one for one in candidates if one[0][-1] != EOS][:WIDTH]
    return max(finished, key=lambda one: one[1])


def test_differences_follow_from_the_two_rules(
    reverse_run, trained, ours, theirs, piece_ids
):
    """With sources longer than in training, other letters, and repeated letters."""
    vocabulary = trained.vocabulary
    known = [source for source, _ in reverse_run.held_out[:6]]
    sources = [f"{a} {b}" for a, b in zip(known[:3], known[3:], strict=True)]
    sources += random_lines(3, seed=4, longest=3)
    lines = ours.translate([source.encode() for source in sources])
    read_next = make_next_scorer(trained.model)
    for source, line in zip(sources, lines, strict=True):
        ids = vocabulary.encode(source)
        limit = len(ids) + EXTRA_LENGTH
        next_log_probs = functools.cache(functools.partial(read_next, tuple(ids)))
        plain, log_prob = plain_search(
            next_log_probs, limit, ranks=2 * WIDTH, cut=False
        )
        assert line.text == vocabulary.decode(plain)
        best = line.hypotheses[0].log_prob
        assert best == pytest.approx(log_prob, rel=1e-4, abs=1e-4)
        plain, log_prob = plain_search(next_log_probs, limit, ranks=WIDTH, cut=True)
        ((answer, found),) = ctranslate2_answers(
            theirs, [vocabulary.pieces(ids[:-1])], limit
        )
        assert tuple(piece_ids[piece] for piece in answer) == plain
        assert found == pytest.approx(log_prob, rel=1e-4, abs=1e-4)
    # The model is not confident about some lines, which makes the search matter.
    assert min(line.hypotheses[0].log_prob for line in lines) < -1.0
