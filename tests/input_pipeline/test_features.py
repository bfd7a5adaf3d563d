import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.input_pipeline import features
from t2t_keras.input_pipeline.features import check_batch, element_spec


def good_batch(rows=3, source_length=5, target_length=7):
    return {
        "encoder_input_tokens": np.ones([rows, source_length], np.int32),
        "decoder_input_tokens": np.ones([rows, target_length], np.int32),
        "decoder_target_tokens": np.ones([rows, target_length], np.int32),
        "decoder_loss_weights": np.ones([rows, target_length], np.float32),
    }


def test_names_are_those_of_the_contract():
    assert list(element_spec(3, 5)) == list(good_batch())
    assert [name for name, _ in features.FEATURE_DTYPES] == list(good_batch())


def test_a_good_batch_passes_as_arrays_tensors_and_specs():
    check_batch(good_batch())
    check_batch({name: tf.constant(array) for name, array in good_batch().items()})
    check_batch(element_spec(4, 6))
    check_batch(element_spec(None, None))


def test_it_can_be_checked_while_a_function_is_traced():
    @tf.function(input_signature=[element_spec(None, None)])
    def rows_of(batch):
        check_batch(batch)
        return tf.shape(batch["encoder_input_tokens"])[0]

    assert rows_of(good_batch(rows=3, target_length=5)) == 3


def test_missing_and_unknown_features_are_named():
    batch = good_batch()
    batch["targets"] = batch.pop("decoder_target_tokens")
    with pytest.raises(
        ValueError,
        match=r"Missing: \['decoder_target_tokens'\]. Unknown: \['targets'\]",
    ):
        check_batch(batch)


@pytest.mark.parametrize("name", list(good_batch()))
def test_a_wrong_dtype_is_named(name):
    batch = good_batch()
    batch[name] = batch[name].astype(np.int64)
    with pytest.raises(ValueError, match=rf"{name} must be \w+32\. Received: int64"):
        check_batch(batch)


@pytest.mark.parametrize("name", list(good_batch()))
def test_a_wrong_rank_is_named(name):
    batch = good_batch()
    batch[name] = batch[name][0]
    with pytest.raises(
        ValueError, match=rf"{name} must be of rank 2.*Received: \(\d,\)"
    ):
        check_batch(batch)


@pytest.mark.parametrize("name", ["decoder_input_tokens", "decoder_loss_weights"])
def test_decoder_features_have_one_shape(name):
    batch = good_batch()
    batch[name] = batch[name][:, 1:]
    with pytest.raises(ValueError, match=rf"{name} must have the shape.*\(3, 6\)"):
        check_batch(batch)


def test_both_sides_have_as_many_rows():
    batch = good_batch()
    batch["encoder_input_tokens"] = batch["encoder_input_tokens"][:2]
    with pytest.raises(
        ValueError, match=r"encoder_input_tokens must have as many rows"
    ):
        check_batch(batch)
