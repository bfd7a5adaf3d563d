"""Messages made here against what the real ones look like, in text."""

from google.protobuf import text_format

from t2t_keras.serving import config_protos

# As in TensorFlow Serving's guide to batching.
BATCHING = """
max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 100 }
num_batch_threads { value: 4 }
thread_pool_name { value: "pool" }
allowed_batch_sizes: [1, 8, 32]
pad_variable_length_inputs: true
enable_large_batch_splitting { value: true }
max_execution_batch_size { value: 16 }
"""


def test_batching_parameters_are_read():
    found = text_format.Parse(BATCHING, config_protos.batching_parameters())
    assert found.max_batch_size.value == 32
    assert found.batch_timeout_micros.value == 2000
    assert found.max_enqueued_batches.value == 100
    assert found.num_batch_threads.value == 4
    assert found.thread_pool_name.value == "pool"
    assert list(found.allowed_batch_sizes) == [1, 8, 32]
    assert found.pad_variable_length_inputs
    assert found.enable_large_batch_splitting.value
    assert found.max_execution_batch_size.value == 16
    assert not config_protos.batching_parameters().HasField("max_batch_size")


def test_keys_are_read():
    text = 'server_key: "k" server_cert: "c" custom_ca: "a" client_verify: true'
    found = text_format.Parse(text, config_protos.ssl_config())
    assert (found.server_key, found.server_cert) == ("k", "c")
    assert (found.custom_ca, found.client_verify) == ("a", True)
