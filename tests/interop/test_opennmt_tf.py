"""Imports of OpenNMT-tf's models against the NumPy reference; refusals."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.interop.formats import read_model
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.imported_run import write_model_dir
from t2t_keras.text.stored_vocabulary import load_vocabulary
from tests.interop.opennmt_tf_files import (
    FEATURES,
    KERNEL,
    LABELS,
    SOURCE,
    TARGET,
    arguments_of,
    description_of,
    opennmt_arrays,
    write_checkpoint,
    write_opennmt_tf,
    write_vocabulary,
)
from tests.interop.small_models import (
    TOLERANCE,
    V,
    max_error,
    read_arrays,
    small_weights,
)
from tests.interop.tokenizer_files import write_spm_pair
from tests.reference.weights_np import Options, Weights


def options(**changed: Any) -> Options:
    """Of a Transformer of the catalog: pre-norm, with three matrices of its own."""
    usual = {
        "normalization": "pre",
        "layer_norm_epsilon": 1e-3,
        "position_layout": "halves_t2t",
        "first_position": 1,
        "decoder_start": 3,
        "attention_bias": True,
        "output_bias": True,
        "tie_output": False,
        "share_embeddings": False,
        "source_eos": False,
    }
    return Options(**{**usual, **changed})


PRE = options()
# As the catalog's ScalingNmtEnDe.
POST = options(
    normalization="post",
    output_bias=False,
    tie_output=True,
    share_embeddings=True,
    source_eos=True,
)
TARGET_SHARED = options(tie_output=True, attention_bias=False, activation="swish")
INPUT_SHARED = options(share_embeddings=True, activation="gelu")


def convert(path: Path, model_dir: Path, **arguments: Any):
    return write_model_dir(
        read_model("opennmt_tf", path), model_dir, "opennmt_tf", **arguments
    )


@pytest.mark.parametrize(
    "chosen",
    [PRE, POST, TARGET_SHARED, INPUT_SHARED],
    ids=["pre", "post", "target", "input"],
)
def test_logits_are_those_of_the_reference(tmp_path, chosen) -> None:
    weights = small_weights(chosen)
    model = convert(write_opennmt_tf(tmp_path / "otf", weights), tmp_path / "run")
    assert max_error(model, weights) < TOLERANCE


def test_ids_files_and_settings(tmp_path) -> None:
    search = {"beam_width": 3, "length_penalty": 0.2, "minimum_decoding_length": 4}
    ignored = {"coverage_penalty": 0.2, "replace_unknown_target": True}
    folder = write_opennmt_tf(
        tmp_path / "otf", small_weights(PRE), params={**search, **ignored}
    )
    log: list[str] = []
    with log_to(log.append):
        convert(folder, tmp_path / "run")
    run = ModelDir(tmp_path / "run")
    entry = run.run_card()["import"]
    assert entry["original_ids"] == [0, 2, V - 1, 1, *range(3, V - 1)]
    assert entry["source_original_ids"] == entry["original_ids"]
    assert set(entry["files"]) == {
        "data.yml",
        "model_description.py",
        "source.txt",
        "target.txt",
        "ckpt-7.index",
        "ckpt-7.data-00000-of-00001",
    }
    assert entry["settings"]["model"]["num_heads"] == 3
    assert entry["settings"]["config"]["params"]["beam_width"] == 3
    decoding = run.config().decoding
    assert (decoding.beam_size, decoding.alpha, decoding.min_length) == (3, 0.2, 4)
    assert decoding.length_penalty == "gnmt"
    assert run.config().model.dropout_rate == 0.2
    vocabulary = load_vocabulary(run.vocabulary_file)
    assert vocabulary.source.encode("s5 w5 s18 <unk> <blank>") == [5, 2, 18, 2, 2, 1]
    assert vocabulary.encode("w4") == [4, 1]
    assert vocabulary.pieces([0, 1, 2, 3]) == ["<pad>", "</s>", "<unk>", "<s>"]
    assert log == [
        "warning: coverage_penalty: 0.2 is ignored; there is none here",
        "warning: replace_unknown_target: True is ignored; there is none here",
    ]


def test_the_search_of_a_run_without_settings(tmp_path) -> None:
    """As --auto_config sets it: four beams, and no length penalty."""
    folder = write_opennmt_tf(tmp_path / "otf", small_weights(PRE))
    decoding = read_model("opennmt_tf", folder).decoding
    assert (decoding.beam_size, decoding.length_penalty) == (4, "none")


def test_one_vocabulary_for_both_sides(tmp_path) -> None:
    data = {"source_vocabulary": None, "target_vocabulary": None}
    folder = write_opennmt_tf(
        tmp_path / "otf", small_weights(POST), data={**data, "vocabulary": "target.txt"}
    )
    imported = read_model("opennmt_tf", folder)
    assert imported.source_original_ids is None
    assert imported.vocabulary.source.encode("w4 s4") == [4, 2, 1]


def changed(weights: Weights) -> Weights:
    assert weights.output_embedding is not None
    return dataclasses.replace(weights, output_embedding=weights.output_embedding * 1.5)


def check_same_weights(path: Path, weights: Weights) -> None:
    """Checks that a run has these weights, by the name of a matrix that differs."""
    found = read_arrays(read_model("opennmt_tf", path))
    expected = weights.output_embedding.astype("f")
    np.testing.assert_array_equal(found["embedding/output_matrix"], expected)


def test_inputs_that_name_a_run(tmp_path) -> None:
    """A folder, a configuration beside it, one file of a checkpoint, an average."""
    weights = small_weights(PRE)
    folder = write_opennmt_tf(tmp_path / "otf", weights)
    config = yaml.safe_load((folder / "data.yml").read_text())
    outside = tmp_path / "data.yml"
    outside.write_text(yaml.safe_dump({**config, "model_dir": "otf/"}))
    for path in (folder, outside, folder / "ckpt-7.index"):
        check_same_weights(path, weights)
    other = changed(weights)
    write_checkpoint(folder / "avg", opennmt_arrays(other))
    assert read_model("opennmt_tf", folder).warnings == [
        f"{folder / 'avg'} has an average of checkpoints, which as a rule "
        "translates better. Give it as --input to import it"
    ]
    check_same_weights(folder / "avg", other)


def test_the_newest_checkpoint_or_the_one_named(tmp_path) -> None:
    weights = small_weights(PRE)
    folder = write_opennmt_tf(tmp_path / "otf", weights)
    newer = changed(weights)
    write_checkpoint(folder, opennmt_arrays(newer), step=12)
    check_same_weights(folder, newer)
    check_same_weights(folder / "ckpt-7.index", weights)
    (folder / "checkpoint").unlink()
    check_refused(folder, "must have one checkpoint.* Found: ckpt-12, ckpt-7")


def test_a_run_without_its_configuration(tmp_path) -> None:
    """Vocabularies by the names of the documentation, or one for both sides."""
    weights = small_weights(PRE)
    folder = write_opennmt_tf(tmp_path / "otf", weights)
    for name in ("data.yml", "source.txt", "target.txt"):
        (folder / name).unlink()
    check_refused(folder, "otf must have the configuration of the run, a file .yml")
    write_vocabulary(folder / "joint.vocab", TARGET)
    assert read_model("opennmt_tf", folder).source_original_ids is None
    write_vocabulary(folder / "src-vocab.txt", SOURCE)
    write_vocabulary(folder / "tgt-vocab.txt", TARGET)
    imported = read_model("opennmt_tf", folder)
    assert imported.vocabulary.source.encode("s4") == [4, 1]
    assert not imported.model.source_eos
    assert max_error(convert(folder, tmp_path / "run"), weights) < TOLERANCE


SPM = '{"type": "SentencePieceTokenizer", "params": {"model": "spm/source.spm"}}'
PYONMTTOK = '{"mode": "none", "sp_model_path": "target.spm"}'


@pytest.mark.parametrize("form", ["mapping", "file", "json"])
def test_sentencepiece_models_of_the_configuration(tmp_path, form) -> None:
    """Pieces that the model splits a line into have the ids of the vocabulary."""
    folder = write_opennmt_tf(tmp_path / "otf", small_weights(PRE))
    write_spm_pair(folder)
    write_vocabulary(folder / "source.txt", TARGET)
    named = {"type": "OpenNMTTokenizer", "params": json.loads(PYONMTTOK)}
    settings: list[Any] = [json.loads(SPM), named]
    if form == "json":
        settings = [SPM, PYONMTTOK]
    elif form == "file":
        for name, each in zip(("a.yml", "b.yml"), settings, strict=True):
            (folder / name).write_text(yaml.safe_dump(each))
        settings = ["/train/a.yml", "b.yml"]
    sides = ("source", "target")
    data = {
        f"{side}_tokenization": each for side, each in zip(sides, settings, strict=True)
    }
    edit_config(folder, **data)
    imported = read_model("opennmt_tf", folder)
    assert imported.vocabulary.source.encode("w4w18?") == [4, 18, 2, 1]
    assert imported.vocabulary.decode([4, 5, 1]) == "w4w5"
    assert {folder / "source.spm", folder / "target.spm"} <= set(imported.files)
    assert imported.warnings == []


def test_tokenizers_that_are_not_available(tmp_path) -> None:
    folder = write_opennmt_tf(tmp_path / "otf", small_weights(PRE))
    pieces = {"mode": "aggressive", "joiner_annotate": True}
    edit_config(folder, tokenization=pieces)
    assert read_model("opennmt_tf", folder).warnings == [
        f"the tokenizer of the {side}, OpenNMTTokenizer, is not available "
        "here: lines are its tokens with spaces between"
        for side in ("source", "target")
    ]
    write_spm_pair(folder)
    edit_config(folder, target_tokenization=PYONMTTOK)
    check_refused(folder, "for one side alone, target.spm")
    edit_config(folder, target_tokenization='{"mode": ')
    check_refused(folder, "target_tokenization in .*data.yml is damaged")
    for side in ("source", "target"):
        (folder / f"{side}.spm").unlink()
    edit_config(folder, tokenization={"type": "SpaceTokenizer"}, target_tokenization={})
    write_spm_pair(folder)  # of something else
    imported = read_model("opennmt_tf", folder)
    assert imported.warnings == []
    assert imported.vocabulary.source.encode("s4 s5") == [4, 5, 1]


def test_files_are_those_that_the_configuration_names(tmp_path) -> None:
    """Not files of the same name elsewhere; other settings in the folder are left."""
    folder = write_opennmt_tf(tmp_path / "otf", small_weights(PRE))
    write_vocabulary(folder / "vocab.txt", tuple(reversed(TARGET)))
    (folder / "notes.yml").write_text("- a list")
    (folder / "broken.yaml").write_text("data: {")
    config = yaml.safe_load((folder / "data.yml").read_text())
    for side, tokens in (("en", SOURCE), ("de", TARGET)):
        (tmp_path / side).mkdir()
        write_vocabulary(tmp_path / side / "vocab.txt", tokens)
    config["data"]["source_vocabulary"] = "en/vocab.txt"
    config["data"]["target_vocabulary"] = "de/vocab.txt"
    (folder / "data.yml").unlink()
    outside = tmp_path / "data.yml"
    outside.write_text(yaml.safe_dump({**config, "model_dir": "otf"}))
    imported = read_model("opennmt_tf", outside)
    vocabulary = imported.vocabulary
    assert vocabulary.source.encode("s5") == vocabulary.encode("w5")
    names = {tmp_path / name for name in ("en/vocab.txt", "de/vocab.txt", "data.yml")}
    assert names <= set(imported.files)
    write_vocabulary(folder / "vocab.txt", TARGET)
    for side in ("en", "de"):
        (tmp_path / side / "vocab.txt").unlink()
    with pytest.raises(UserError, match="two vocabularies, and for both only"):
        read_model("opennmt_tf", outside)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"length_penalty": -0.2}, "alpha must be at least 0"),
        ({"minimum_decoding_length": -1}, "min_length must be at least 0"),
    ],
)
def test_a_search_that_is_not_possible_here_is_refused(
    tmp_path, params, message
) -> None:
    folder = write_opennmt_tf(tmp_path / "otf", small_weights(PRE), params=params)
    check_refused(folder, message)


def edit_config(folder: Path, **data: Any) -> None:
    """Changes settings of the text."""
    config = yaml.safe_load((folder / "data.yml").read_text())
    config["data"] |= data
    (folder / "data.yml").write_text(yaml.safe_dump(config))


def check_refused(path: Path, message: str) -> None:
    """Checks that an input cannot be imported, and that nothing is written."""
    before = sorted(path.parent.iterdir())
    with pytest.raises(UserError, match=message):
        convert(path, path.parent / "run")
    assert sorted(path.parent.iterdir()) == before


def refused_arguments() -> tuple[tuple[dict[str, str], str], ...]:
    """Changes of the model's arguments, and the message about them."""
    embedder = "opennmt.inputters.WordEmbedder"
    return (
        ({"maximum_relative_position": "20"}, "relative positions. Received: 20"),
        ({"position_encoder_class": "None"}, "no sinusoids for positions.* None"),
        (
            {"ffn_activation": "opennmt.layers.gelu"},
            "an activation that this project does not have.* opennmt.layers.gelu",
        ),
        ({"ffn_activation": "'selu'"}, "does not have. Received: selu"),
        (
            {"source_inputter": f"opennmt.inputters.ParallelInputter([{embedder}(9)])"},
            "inputs other than one sequence of tokens",
        ),
        ({"num_layers": "(1, 3)"}, "no place for: model/encoder/layers/1/"),
        ({"num_layers": "(2, 4)"}, "no array model/decoder/layers/3/"),
        ({"num_layers": "[2]"}, "A setting of .* is missing, or of another kind"),
        ({"ffn_inner_dim": "11"}, r"\(12, 10\), and its settings say \(12, 11\)"),
        ({"num_units": "24"}, "its settings say"),
        ({"num_heads": "5"}, "--d_model must be a multiple of --num_heads"),
        ({"num_heads": "0"}, "--num_heads must be at least 1. Received: 0"),
        ({"dropout": "1.5"}, "dropout_rate must be at most 0.99"),
        ({"pre_norm": "False"}, "no place for: model/decoder/layer_norm/"),
        ({"mha_bias": "False"}, "no place for: .*linear_keys/bias"),
    )


@pytest.mark.parametrize("changes, message", refused_arguments())
def test_other_architectures_are_refused(tmp_path, changes, message) -> None:
    weights = small_weights(PRE)
    code = description_of(arguments_of(weights, **changes))
    folder = write_opennmt_tf(tmp_path / "otf", weights, description=code)
    check_refused(folder, message)


def refused_data() -> tuple[tuple[dict[str, Any], str], ...]:
    """Changes of the settings of the text, and the message about them."""
    return (
        (
            {"source_sequence_controls": {"start": True, "end": True}},
            "its sources begin with <s>",
        ),
        (
            {"target_sequence_controls": {"start": False, "end": True}},
            "its targets must have <s> and </s>",
        ),
        ({"target_vocabulary": "other.txt"}, "no file other.txt.* Copy it there"),
        ({"source_tokenization": "none.yml"}, "otf has no file none.yml.* it there.$"),
        ({"source_tokenization": {"type": "SentencePieceTokenizer"}}, "'model'"),
    )


@pytest.mark.parametrize("changes, message", refused_data())
def test_settings_of_the_text_are_refused(tmp_path, changes, message) -> None:
    folder = write_opennmt_tf(tmp_path / "otf", small_weights(PRE), data=changes)
    check_refused(folder, message)


def test_whether_sources_end_must_be_known(tmp_path) -> None:
    """Automatic settings, which are stored nowhere, put </s> after a source."""
    weights = small_weights(POST)
    code = description_of(arguments_of(weights)).replace(
        "model = ",
        "    def auto_config(self, num_replicas=1):\n"
        '        return {"data": {"source_sequence_controls": {"end": True}}}\n\n'
        "model = ",
    )
    folder = write_opennmt_tf(tmp_path / "otf", weights, description=code)
    assert read_model("opennmt_tf", folder).model.source_eos
    edit_config(folder, source_sequence_controls=None)
    check_refused(folder, "otf does not say whether sources end with </s>")
    edit_config(folder, source_sequence_controls={"end": False})
    assert not read_model("opennmt_tf", folder).model.source_eos
    (folder / "model_description.py").write_text(
        "from opennmt import models\n"
        'model = lambda: models.get_model_from_catalog("ScalingNmtEnDe")\n'
    )
    edit_config(folder, source_sequence_controls=None)
    check_refused(folder, "ScalingNmtEnDe has it if its training had --auto_config")


def test_damaged_runs_are_refused(tmp_path) -> None:
    folder = write_opennmt_tf(tmp_path / "otf", small_weights(PRE))
    data = folder / "ckpt-7.data-00000-of-00001"
    content = data.read_bytes()
    for size in (0, len(content) // 9, len(content) // 2, len(content) - 1):
        data.write_bytes(content[:size])
        check_refused(folder, "ckpt-7 cannot be read")
    data.write_bytes(content)
    write_vocabulary(folder / "target.txt", (*TARGET, "more"))
    check_refused(folder, f"{V} tokens, and the model has {V} rows .* of another model")
    write_vocabulary(folder / "target.txt", ("<unk>", *TARGET[1:]))
    check_refused(folder, "target.txt must begin with <blank>, <s>, </s>")
    write_vocabulary(folder / "target.txt", (*TARGET[:-1], TARGET[-2]))
    check_refused(folder, "'w17' twice")
    (folder / "target.txt").write_bytes(b"\xff")
    check_refused(folder, "target.txt is not UTF-8")
    for name in ("other.yml", "data.yaml"):
        (folder / name).write_text("data: {}")
    check_refused(folder, "several configurations: data.yaml, data.yml, other.yml")
    (folder / "data.yml").write_text("data: {")
    check_refused(folder / "data.yml", "data.yml cannot be read as YAML")
    (folder / "data.yml").write_text("- data")
    check_refused(folder / "data.yml", "must have settings")
    check_refused(folder / "other.yml", "must name the folder .* Received: None")
    check_refused(folder / "target.txt", "must be the folder of a run of OpenNMT-tf")
    for name in ("data.yml", "data.yaml", "other.yml", "model_description.py"):
        (folder / name).unlink()
    check_refused(folder / "ckpt-7.index", "no file model_description.py.* these two l")
    (folder / "saved_model.pb").touch()
    check_refused(folder, "is an exported model. Give the folder of the checkpoint")


@pytest.mark.slow
def test_checkpoints_of_other_models_are_refused(tmp_path) -> None:
    weights = small_weights(PRE)
    arrays = opennmt_arrays(weights)
    table = np.ones((7, 12), np.float32)
    for number, (change, message) in enumerate(
        (
            ({FEATURES: None, LABELS: None}, "no embedding of a translation model"),
            (
                {"encoder/layers/0/ffn/layer/more": table},
                "no place for: .*ffn/layer/mo",
            ),
            ({KERNEL: table}, "has 12 rows, and the vocabulary 19 pieces"),
            ({FEATURES: np.full((V, 12), np.nan, np.float32)}, "NaN or infinite"),
            ({FEATURES: np.ones((V, 12), np.int32)}, "type int32"),
        )
    ):
        kept = {k: v for k, v in {**arrays, **change}.items() if v is not None}
        folder = tmp_path / f"otf-{number}"
        check_refused(write_opennmt_tf(folder, weights, arrays=kept), message)
    folder = write_opennmt_tf(tmp_path / "none", weights, arrays={})
    check_refused(folder, "no variables of a model of OpenNMT-tf 2")
