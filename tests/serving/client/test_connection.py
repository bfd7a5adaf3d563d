"""Connection of the client: TLS, with the client's own certificate too."""

import subprocess

import grpc
import pytest

from t2t_keras.errors import UserError
from t2t_keras.serving.client.calls import RetryPolicy
from t2t_keras.serving.client.connection import read_credentials
from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.client.translation_client import TranslationClient
from tests.serving.fake_server import serve, shout


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A folder of keys and certificates: NAME.key and NAME.pem for each of these names.

    Each certificate is trusted by itself alone.
    """
    folder = tmp_path_factory.mktemp("tls")
    for name in ("localhost", "client", "other"):
        key = "rsa:2048" if name == "client" else "ec -pkeyopt ec_paramgen_curve:P-256"
        command = f"openssl req -x509 -newkey {key} -nodes -days 2 -subj /CN={name}"
        files = f"-addext subjectAltName=DNS:{name} -keyout {name}.key -out {name}.pem"
        run_openssl(folder, f"{command} {files}")
    encrypt = "openssl pkey -in client.key -aes256 -passout pass:secret"
    run_openssl(folder, f"{encrypt} -out encrypted.key")
    (folder / "text.pem").write_text("no certificate")
    cut = (folder / "client.pem").read_bytes()[:300] + b"\n-----END CERTIFICATE-----\n"
    (folder / "cut.pem").write_bytes(cut)
    return folder


def run_openssl(folder, command):
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)


def server_credentials(tls, trusted=None):
    """Returns a server's credentials; it verifies its clients if it trusts one."""
    pair = [(tls / f"localhost.{kind}").read_bytes() for kind in ("key", "pem")]
    roots = (tls / f"{trusted}.pem").read_bytes() if trusted else None
    return grpc.ssl_server_credentials([pair], roots, require_client_auth=bool(trusted))


def translate(server, credentials):
    """Returns the translation of "a", or the status of the failure."""
    try:
        with TranslationClient(
            server, credentials=credentials, retry=RetryPolicy(0)
        ) as client:
            return client.translate(["a"])[0].text
    except ServerError as error:
        return error.code


def test_with_tls_the_server_must_be_trusted(tls):
    with serve(shout, server_credentials(tls)) as (server, _):
        assert translate(server, read_credentials(tls / "localhost.pem")) == "A"
        for credentials in (
            read_credentials(tls / "other.pem"),
            grpc.ssl_channel_credentials(),
            read_credentials(None),
        ):
            assert translate(server, credentials) is grpc.StatusCode.UNAVAILABLE


def test_a_server_may_verify_its_clients(tls):
    pairs = {
        name: (tls / f"{name}.pem", tls / f"{name}.key") for name in ("client", "other")
    }
    with serve(shout, server_credentials(tls, "client")) as (server, service):
        for own in ((), pairs["other"]):
            credentials = read_credentials(tls / "localhost.pem", *own)
            assert translate(server, credentials) is grpc.StatusCode.UNAVAILABLE, own
        assert service.requests == []
        credentials = read_credentials(tls / "localhost.pem", *pairs["client"])
        assert translate(server, credentials) == "A"


REFUSED = (
    (("", "client.pem", ""), "Received: --ssl_cert_file alone. Give both, or neither"),
    (("localhost.pem", "", "client.key"), "Received: --ssl_key_file alone."),
    (("", "client.pem", "client.key"), "are for TLS. Add --ssl_ca_file, the certifi"),
    (("no.pem", "", ""), "no.pem is not a file of certificates (PEM): No such file"),
    (("cut.pem", "", ""), "cut.pem is not a file of certificates (PEM): "),
    (("localhost.pem", "cut.pem", "client.key"), "cut.pem is not a file of certific"),
    (("localhost.pem", "client.pem", "no.key"), "no.key is not a file of a private "),
    (("localhost.pem", "client.pem", "text.pem"), "text.pem is not a file of a priv"),
    (("localhost.pem", "client.pem", "other.key"), "is the key of another certificat"),
    (("localhost.pem", "client.pem", "encrypted.key"), "encrypted.key is encrypted."),
)


@pytest.mark.parametrize(("files", "message"), REFUSED)
def test_files_that_cannot_be_used_are_refused(tls, files, message):
    with pytest.raises(UserError) as raised:
        read_credentials(*(str(tls / name) if name else None for name in files))
    assert str(raised.value).startswith("--ssl_")
    assert message in str(raised.value)
