"""Configuration messages of TensorFlow Serving, parsed from text format."""

from t2t_keras.serving import config_protos


def test_keys_are_read(tmp_path):
    text = '\ufeffserver_key: "k" server_cert: "c" custom_ca: "a" client_verify: true'
    (tmp_path / "ssl").write_text(text, "utf-8")
    config = config_protos.read_text_proto(
        tmp_path / "ssl", config_protos.empty_message("SSLConfig")
    )
    assert (config.server_key, config.server_cert) == ("k", "c")
    assert (config.custom_ca, config.client_verify) == ("a", True)
