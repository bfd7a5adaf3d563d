"""Export settings: defaults, limits of the model, and refused values."""

import dataclasses

import pytest

from t2t_keras.decoding.sampling import Sampling
from t2t_keras.errors import UserError
from t2t_keras.runs import models, translators
from t2t_keras.runs.export.export_settings import (
    ExportSettings,
    check_license,
    select_warm_up,
)
from t2t_keras.runs.export.saved_model import serving_limits
from t2t_keras.settings.decoding_config import DecodingConfig
from tests.runs.random_model import CONFIG, as_trained_model

PLAIN = ExportSettings(DecodingConfig(beam_size=4, extra_length=6))


@pytest.fixture(scope="module")
def trained(vocabulary):
    return as_trained_model(models.build_model(CONFIG, vocabulary.size), vocabulary)


@pytest.fixture(scope="module")
def learned(vocabulary):
    """A model with 40 learned positions."""
    sizes = dataclasses.replace(CONFIG.model, learned_positions=40)
    config = dataclasses.replace(CONFIG, model=sizes)
    return as_trained_model(models.build_model(config, vocabulary.size), vocabulary)


def test_limits_come_from_the_model(trained, learned):
    limits = serving_limits(trained, PLAIN)
    assert limits.source_length == translators.longest_source(trained.model)
    assert limits.target_length == limits.source_length + 6
    assert (limits.beam_size, limits.n_best, limits.characters) == (8, 4, None)
    limits = serving_limits(learned, PLAIN)
    assert (limits.source_length, limits.target_length) == (40, 40)
    limits = serving_limits(learned, dataclasses.replace(PLAIN, max_source_length=20))
    assert (limits.source_length, limits.target_length) == (20, 26)


def test_explicit_limits_override_the_defaults(trained):
    wide = ExportSettings(DecodingConfig(beam_size=12))
    assert serving_limits(trained, wide).beam_size == 12
    explicit = dataclasses.replace(
        PLAIN,
        n_best=3,
        max_source_length=30,
        max_characters=99,
        max_beam_size=5,
        max_attention_length=50,
    )
    limits = serving_limits(trained, explicit)
    assert dataclasses.astuple(limits) == (30, 36, 99, 30, 5, 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_best": 5}, "--n_best=5 is more than --beam_size=4"),
        ({"max_source_length": 41}, "--max_source_length=41 is more than the 40 posi"),
    ],
)
def test_limits_beyond_the_model_are_refused(learned, changed, message):
    with pytest.raises(UserError, match=message):
        serving_limits(learned, dataclasses.replace(PLAIN, **changed))


def test_xla_has_no_int8():
    with pytest.raises(UserError, match=r"no products for --precision=int8\."):
        dataclasses.replace(PLAIN, xla=True, precision="int8")
    assert dataclasses.replace(PLAIN, precision="int8").precision == "int8"


def test_fewer_default_batch_sizes_with_xla():
    assert PLAIN.batch_sizes == (1, 2, 4, 8, 16, 32)
    assert dataclasses.replace(PLAIN, xla=True, batch_sizes=()).batch_sizes == (
        1,
        8,
        32,
    )
    assert dataclasses.replace(PLAIN, xla=True, batch_sizes=(3,)).batch_sizes == (3,)


def test_values_that_the_program_refuses_are_refused():
    for changed, message in (
        ({"batch_sizes": (4, 2)}, "must be ascending numbers from 1.* Received: 4,2"),
        ({"batch_sizes": (0,)}, "must be ascending numbers from 1"),
        ({"warm_up": ()}, r"--warm_up must be names of signatures.* Received: ''"),
        ({"warm_up": ("",)}, "--warm_up must be names of signatures"),
        ({"warm_up": ("nbest", "none")}, "words all and none. Received: 'nbest,none'"),
        ({"warm_up": "all,score"}, "words all and none. Received: 'all,score'"),
    ):
        with pytest.raises(UserError, match=message):
            dataclasses.replace(PLAIN, **changed)
            pytest.fail(f"{changed} was accepted")


def test_a_name_that_kubernetes_would_refuse():
    for name in ("", "En", "a_b", "-a", "a-", "a/b", "a b", "ä"):
        with pytest.raises(UserError, match="lower-case letters, digits and hyphens"):
            dataclasses.replace(PLAIN, model_name=name)
            pytest.fail(f"{name!r} was accepted")
    dataclasses.replace(PLAIN, model_name="en-de2")


def test_the_default_signature_alone_is_warmed_up():
    assert PLAIN.warm_up == ("serving_default",)
    several = dataclasses.replace(PLAIN, warm_up="nbest, score,nbest")
    assert several.warm_up == ("nbest", "score")


def select(warm_up, export_format, **settings):
    settings = dataclasses.replace(PLAIN, warm_up=warm_up, **settings)
    existing = settings.signatures(export_format)
    return select_warm_up(settings.warm_up, existing, export_format)


def test_signatures_to_warm_up_by_format():
    assert select("none", "text") == select("none", "ids") == ()
    assert select("score,nbest", "text") == ("score", "nbest")
    ids = {"serving_default", "translate_ids", "detokenize"}
    assert {*select("all", "ids", prefix=True)} == ids
    text = {"nbest", "translate_with_options", "score", "attention"}
    text |= {"serving_default", "translate_ids"}
    assert {*select("all", "text")} == text
    assert {*select("all", "text", prefix=True)} == text | {"translate_with_prefix"}
    assert {*select("all", "text", sample=Sampling())} == text | {"sample"}


@pytest.mark.parametrize(
    ("warm_up", "export_format", "messages"),
    [
        ("n_best", "text", ("text has no signature 'n_best'", "Did you mean nbest?")),
        (
            "nbest,sample",
            "text",
            ("no signature 'sample'", "needs --format=text --sam"),
        ),
        ("translate_with_prefix", "ids", ("It needs --format=text --prefix.",)),
        ("nbest", "ids", ("--format=ids has no signature 'nbest'", "one format at a")),
        ("detokenize", "text", ("--format=text has no signature", "its own --warm_up")),
    ],
)
def test_signatures_that_an_export_lacks(warm_up, export_format, messages):
    with pytest.raises(UserError) as caught:
        select(warm_up, export_format)
    for message in messages:
        assert message in str(caught.value)
    names = ", ".join(PLAIN.signatures(export_format))
    assert f"With these flags it has {names}." in str(caught.value)


@pytest.mark.parametrize("name", ["mit", "cc-by-4.0", "apache-2.0", "other"])
def test_licenses_are_identifiers_of_the_hub(name):
    check_license(name)


@pytest.mark.parametrize("name", ["", "MIT", "cc by", "a\nlicense: b", "-mit"])
def test_other_texts_are_no_license(name):
    with pytest.raises(UserError, match="must be the identifier of a license in"):
        check_license(name)
