"""Exports of a small made-up translator: what is saved, checked, and left behind."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.beam_search import BeamSearchResult
from t2t_keras.errors import UserError
from t2t_keras.serving import saved_model
from t2t_keras.serving.saved_model import TranslatorModule, save_translator
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.text.vocabulary import SubwordVocabulary

TEXTS = (b"ab ba", b"", b" \t", b"\xe2\x80\xa8", b"ab \xff c", b"ba " * 30, b"c")
LIMIT = 12


@pytest.fixture(scope="module")
def vocabulary():
    return SubwordVocabulary(learn_subwords(["ab ba abc", "c ba"], vocabulary_size=266))


@pytest.fixture(scope="module")
def weight(vocabulary):
    return tf.Variable(tf.range(vocabulary.size, dtype=tf.float32), name="weight")


def echo(weight):
    """Returns a search that finds the source itself, scored by its tokens' weights."""

    def search(source):
        is_token_BS = tf.cast(source != 0, tf.int32)
        scores_B = tf.reduce_sum(
            tf.gather(weight, source) * tf.cast(is_token_BS, tf.float32), axis=1
        )
        lengths_B = tf.reduce_sum(is_token_BS, axis=1)
        parts = (source, lengths_B, 2.0 * scores_B, scores_B)
        return BeamSearchResult(*(part[:, None] for part in parts))

    return search


@pytest.fixture
def module(weight, vocabulary):
    return TranslatorModule(echo(weight), [weight], vocabulary, LIMIT)


@pytest.fixture(scope="module")
def exported(weight, vocabulary, tmp_path_factory):
    module = TranslatorModule(echo(weight), [weight], vocabulary, LIMIT)
    return save_translator(module, tmp_path_factory.mktemp("export") / "new" / "base")


@pytest.fixture(scope="module")
def served(exported):
    return tf.saved_model.load(str(exported)).signatures


@pytest.mark.parametrize("count", [0, 1, 2, 7, 33])
def test_text_in_text_and_scores_out(served, vocabulary, count):
    texts = (TEXTS * 5)[:count]
    found = served["serving_default"](text=tf.constant(texts, tf.string, [count]))
    assert set(found) == {"translation", "score"}
    assert found["translation"].shape == found["score"].shape == (count,)
    for text, translation, score in zip(
        texts, found["translation"].numpy(), found["score"].numpy(), strict=True
    ):
        words = vocabulary.encode(text)[:-1][: LIMIT - 1]
        assert translation == vocabulary.decode(words).encode()
        assert score == pytest.approx(sum(words) + 1 if words else 0.0)
        assert (translation == b"") == (not words)


def test_a_blank_text_is_not_worth_a_guess(weight, vocabulary):
    """Even where the search would say something."""

    def talkative(source):
        tokens = tf.fill([tf.shape(source)[0], 1, 2], 5)
        ones = tf.ones([tf.shape(source)[0], 1])
        return BeamSearchResult(tokens, tf.cast(ones, tf.int32), ones, ones)

    module = TranslatorModule(talkative, [weight], vocabulary, LIMIT)
    found = module.translate(tf.constant([b"", b"\t ", b"a"]))
    texts = found["translation"].numpy().tolist()
    assert texts[:2] == [b"", b""]
    assert texts[2] != b""
    assert found["score"].numpy().tolist() == [0.0, 0.0, 1.0]


def test_a_source_is_cut_at_the_limit_and_keeps_its_end(weight, vocabulary):
    seen = []

    def note(source):
        seen.append(source)
        return echo(weight)(source)

    module = TranslatorModule(note, [weight], vocabulary, LIMIT)
    tf.config.run_functions_eagerly(True)
    try:
        module.translate(tf.constant([b"ba " * 30, b"c"]))
    finally:
        tf.config.run_functions_eagerly(False)
    (ids,) = [each.numpy() for each in seen if tf.is_tensor(each) and each.shape[0]]
    assert ids.shape == (2, LIMIT)
    long = vocabulary.encode("ba " * 30)
    assert ids[0].tolist() == [*long[: LIMIT - 1], 1]
    short = vocabulary.encode("c")
    assert ids[1].tolist() == short + [0] * (LIMIT - len(short))


def test_ids_in_ids_out(served, weight):
    ids = np.array([[5, 9, 1, 0], [7, 1, 0, 0], [0, 0, 0, 0]], np.int32)
    found = served["translate_ids"](input_ids=tf.constant(ids))
    assert set(found) == {"output_ids", "output_length", "score"}
    np.testing.assert_array_equal(found["output_ids"], ids)
    np.testing.assert_array_equal(found["output_length"], [3, 2, 0])
    np.testing.assert_array_equal(found["score"], [15.0, 8.0, 0.0])


def test_versions_count_up_and_what_is_no_version_is_left_alone(module, tmp_path):
    for name in ("3", "10", "notes", ".11", "12.old"):
        (tmp_path / name).mkdir()
    assert save_translator(module, tmp_path) == tmp_path / "11"
    assert save_translator(module, str(tmp_path)) == tmp_path / "12"
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"3", "10", "11", "12", "notes", ".11", "12.old"}


class TracksKeras(TranslatorModule):
    """The planted fault: a Keras object on the root, its variables saved twice."""

    def __init__(self, vocabulary):
        layer = keras.layers.Embedding(vocabulary.size, 1)
        layer.build([None])
        layer.embeddings.assign(np.ones([vocabulary.size, 1]))

        def search(source):
            return echo(layer.embeddings.value[:, 0])(source)

        super().__init__(search, [], vocabulary, LIMIT)
        self.layer = layer


def test_a_keras_object_on_the_root_is_found_before_a_server_finds_it(
    vocabulary, tmp_path, monkeypatch
):
    with pytest.raises(UserError, match="does not work in a server's session"):
        save_translator(TracksKeras(vocabulary), tmp_path)
    assert list(tmp_path.iterdir()) == []
    # TensorFlow 2's own loader, which the check could have used, sees nothing.
    monkeypatch.setattr(saved_model, "_check", lambda directory: None)
    directory = save_translator(TracksKeras(vocabulary), tmp_path)
    loaded = tf.saved_model.load(str(directory)).signatures["serving_default"]
    assert loaded(text=tf.constant(["c"]))["translation"].numpy() == [b"c"]


def test_an_answer_of_another_size_is_found(weight, vocabulary, tmp_path):
    class Wrong(TranslatorModule):
        def _translate(self, text):
            found = super()._translate(text)
            return {name: value[:1] for name, value in found.items()}

    module = Wrong(echo(weight), [weight], vocabulary, LIMIT)
    with pytest.raises(UserError, match="The export gave an answer of another size"):
        save_translator(module, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_is_an_os_error_and_leaves_nothing(module, tmp_path, monkeypatch):
    def full(module, directory, **options):
        tf.io.gfile.makedirs(directory)
        tf.io.write_file(f"{directory}/half", "x")
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(OSError, match="1 could not be written: No space left on devi"):
        save_translator(module, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_save_leaves_nothing(module, tmp_path, monkeypatch):
    def interrupted(directory):
        assert (directory / "saved_model.pb").exists()
        assert directory.name.startswith(".")  # no server takes it for a version
        raise KeyboardInterrupt

    monkeypatch.setattr(saved_model, "_check", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_translator(module, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_root_holds_variables_and_no_keras_object(module, weight, exported):
    assert module.variables == (weight,)
    reader = tf.train.load_checkpoint(str(exported / "variables/variables"))
    shapes = [tuple(s) for s in reader.get_variable_to_shape_map().values() if s]
    assert shapes == [tuple(weight.shape)]
