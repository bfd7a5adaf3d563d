import re

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.input_pipeline.batches import features
from t2t_keras.input_pipeline.batches.features import check_batch, element_spec


def good_batch(rows=3, source_length=5, target_length=7):
    return {
        "encoder_input_tokens": np.ones([rows, source_length], np.int32),
        "decoder_input_tokens": np.ones([rows, target_length], np.int32),
        "decoder_target_tokens": np.ones([rows, target_length], np.int32),
        "decoder_loss_weights": np.ones([rows, target_length], np.float32),
    }


def packed_batch():
    batch = good_batch()
    source = np.ones_like(batch["encoder_input_tokens"])
    target = np.ones_like(batch["decoder_input_tokens"])
    return {
        **batch,
        "encoder_segment_ids": source,
        "encoder_positions": source,
        "decoder_segment_ids": target,
        "decoder_positions": target,
    }


def fault_of(batch) -> str:
    """Returns what is wrong with a batch; empty if nothing is."""
    try:
        check_batch(batch)
    except ValueError as error:
        return str(error)
    return ""


PACKED_ALONE = sorted(set(packed_batch()) - set(good_batch()))


def test_names_are_those_of_the_contract():
    assert list(element_spec(packed=False)) == list(good_batch())
    assert list(element_spec(packed=True)) == list(packed_batch())
    assert [name for name, _ in features.FEATURE_DTYPES] == list(good_batch())
    assert len(PACKED_ALONE) == 4


@pytest.mark.parametrize("batch", [good_batch(), packed_batch()])
def test_a_good_batch_passes_as_arrays_tensors_and_specs(batch):
    check_batch(batch)
    check_batch({name: tf.constant(array) for name, array in batch.items()})
    check_batch(element_spec(packed="encoder_positions" in batch))


def test_it_can_be_checked_while_a_function_is_traced():
    @tf.function(input_signature=[element_spec(packed=False)])
    def rows_of(batch):
        check_batch(batch)
        return tf.shape(batch["encoder_input_tokens"])[0]

    assert rows_of(good_batch(rows=3, target_length=5)) == 3


def test_a_batch_is_packed_wholly_or_not():
    for name in PACKED_ALONE:
        batch = packed_batch()
        extra = batch.pop(name)
        assert f"Missing: ['{name}']. Unknown: []" in fault_of(batch), name
        fault = fault_of({**good_batch(), name: extra})
        assert re.search(r"Missing: .*_segment_ids", fault), name


def test_missing_and_unknown_features_are_named():
    batch = good_batch()
    batch["targets"] = batch.pop("decoder_target_tokens")
    with pytest.raises(
        ValueError,
        match=r"Missing: \['decoder_target_tokens'\]. Unknown: \['targets'\]",
    ):
        check_batch(batch)


def test_a_wrong_dtype_is_named():
    for name, array in packed_batch().items():
        fault = fault_of({**packed_batch(), name: array.astype(np.int64)})
        message = rf"{name} must be \w+32\. Received: int64"
        assert re.search(message, fault), (name, fault)


def test_a_wrong_rank_is_named():
    for name, array in packed_batch().items():
        fault = fault_of({**packed_batch(), name: array[0]})
        message = rf"{name} must be of rank 2.*Received: \(\d,\)"
        assert re.search(message, fault), (name, fault)


def test_features_of_a_side_have_one_shape():
    for name in ("decoder_input_tokens", "decoder_loss_weights", *PACKED_ALONE):
        batch = packed_batch()
        batch[name] = batch[name][:, 1:]
        message = rf"{name} must have the shape.*\(3, [46]\)"
        assert re.search(message, fault_of(batch)), name


def test_both_sides_have_as_many_rows():
    batch = good_batch()
    batch["encoder_input_tokens"] = batch["encoder_input_tokens"][:2]
    with pytest.raises(
        ValueError, match=r"encoder_input_tokens must have as many rows"
    ):
        check_batch(batch)
