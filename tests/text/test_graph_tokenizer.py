import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.text.subword_vocabulary import SubwordVocabulary


def test_setting_a_seed_does_not_take_the_model_away(vocabulary):
    texts = tf.constant(["the old house", "über"])
    expected = [vocabulary.encode("the old house"), vocabulary.encode("über")]
    traced = tf.function(vocabulary.encode_in_graph, autograph=False)
    dataset = tf.data.Dataset.from_tensors(texts).map(vocabulary.encode_in_graph)
    assert traced(texts).to_list() == expected
    for set_seed in (keras.utils.set_random_seed, tf.random.set_seed):
        set_seed(5)
        assert vocabulary.encode_in_graph(texts).to_list() == expected
        assert traced(texts).to_list() == expected
        assert next(iter(dataset)).to_list() == expected


def test_two_models_do_not_mix(bpe_model, unigram_model, lines):
    one, other = SubwordVocabulary(bpe_model), SubwordVocabulary(unigram_model)
    twin = SubwordVocabulary(bpe_model)
    texts = tf.constant(lines[:50])

    @tf.function(autograph=False)
    def encode_by_all(vocabularies):
        return [each.encode_in_graph(texts).to_tensor() for each in vocabularies]

    first, second, third = encode_by_all((one, other, twin))
    np.testing.assert_array_equal(first, third)
    assert first.numpy()[7, :4].tolist() == one.encode(lines[7])[:4]
    assert second.numpy()[7, :4].tolist() == other.encode(lines[7])[:4]
    # Deleting the twin does not delete the model that both share.
    del twin
    assert one.encode_in_graph(texts).to_list() == [one.encode(t) for t in lines[:50]]


READER = """
import sys
import numpy as np
import tensorflow as tf
import tensorflow_text

texts = ["the old house", "", "naïve"]
path, ids = sys.argv[1], eval(sys.argv[2])
loaded = tf.saved_model.load(path)
tf.random.set_seed(3)
assert loaded.encode(tf.constant(texts)).numpy().tolist() == ids
with tf.compat.v1.Session(graph=tf.Graph()) as session:
    tf.compat.v1.saved_model.loader.load(session, ["serve"], path)
    out = session.run("StatefulPartitionedCall:0", {"serving_default_texts:0": texts})
    assert out.tolist() == ids
assert "t2t_keras" not in sys.modules
"""


@pytest.mark.slow
def test_an_exported_module_loads_elsewhere(bpe_model, tmp_path):
    vocabulary = SubwordVocabulary(bpe_model)
    module = tf.Module()
    module.tokenizer = vocabulary.tokenizer
    module.encode = tf.function(
        lambda texts: vocabulary.encode_in_graph(texts).to_tensor(),
        input_signature=[tf.TensorSpec([None], tf.string, name="texts")],
        autograph=False,
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.encode)
    texts = ["the old house", "", "naïve"]
    rows = [vocabulary.encode(text) for text in texts]
    width = max(map(len, rows))
    padded = [row + [0] * (width - len(row)) for row in rows]
    subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path), str(padded)],
        check=True,
        cwd=tmp_path,
    )
