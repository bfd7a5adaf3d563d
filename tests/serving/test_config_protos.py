"""Configuration messages of TensorFlow Serving, parsed from text format."""

from google.protobuf import text_format

from t2t_keras.serving import config_protos

# From TensorFlow Serving's batching guide.
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
    config = text_format.Parse(BATCHING, config_protos.batching_parameters())
    assert config.max_batch_size.value == 32
    assert config.batch_timeout_micros.value == 2000
    assert config.max_enqueued_batches.value == 100
    assert config.num_batch_threads.value == 4
    assert config.thread_pool_name.value == "pool"
    assert list(config.allowed_batch_sizes) == [1, 8, 32]
    assert config.pad_variable_length_inputs
    assert config.enable_large_batch_splitting.value
    assert config.max_execution_batch_size.value == 16
    assert not config_protos.batching_parameters().HasField("max_batch_size")


def test_keys_are_read(tmp_path):
    text = '\ufeffserver_key: "k" server_cert: "c" custom_ca: "a" client_verify: true'
    (tmp_path / "ssl").write_text(text, "utf-8")
    config = config_protos.read_text_proto(tmp_path / "ssl", config_protos.ssl_config())
    assert (config.server_key, config.server_cert) == ("k", "c")
    assert (config.custom_ca, config.client_verify) == ("a", True)
