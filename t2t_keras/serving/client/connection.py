"""Connection to a server: its address, TLS, and the limits of messages."""

import re
from pathlib import Path

import grpc

from t2t_keras.errors import UserError
from t2t_keras.files.paths import expand

# What OpenSSL calls a key that is not the certificate's. The last two mean that one is
# RSA and the other is not.
_OTHER_KEY = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")


def open_channel(
    server: str, credentials: grpc.ChannelCredentials | None, max_message_bytes: int
) -> grpc.Channel:
    """Returns a channel, which connects when it is first used.

    Args:
        server: host:port of the gRPC service, or the path of a socket after "unix:".
        credentials: Credentials for TLS; None for a connection without it.
        max_message_bytes: Largest size of a request and of an answer.

    Raises:
        UserError: If `server` is not a valid address, or `max_message_bytes` is
            negative.
    """
    server = server.replace("unix://", "unix:", 1)  # both are gRPC's
    if server.startswith("unix:~"):
        server = f"unix:{expand(server.removeprefix('unix:'))}"
    port = re.search(r":(\d+)$", server)
    address = port is not None and 0 < int(port[1]) < 2**16
    if "://" in server or not (address or server.startswith("unix:")):
        raise UserError(
            "A server is host:port, as in localhost:8500, with a port from 1 to "
            f"65535. Received: {server!r}"
        )
    if max_message_bytes < 0:
        raise UserError(f"--max_message_bytes must be at least 0: {max_message_bytes}")
    options = (
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        # By default a channel waits up to two minutes before it tries again to
        # reach a server that was missing.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
    )
    if credentials:
        return grpc.secure_channel(server, credentials, options)
    return grpc.insecure_channel(server, options)


def read_credentials(
    ssl_ca_file: str | None,
    ssl_cert_file: str | None = None,
    ssl_key_file: str | None = None,
) -> grpc.ChannelCredentials | None:
    """Returns the credentials of a connection, None for an unencrypted one.

    The client's own certificate and key are for a server that verifies its clients
    (mutual TLS). They are checked here, because gRPC reports a file that it cannot use
    as a server that does not answer.

    Args:
        ssl_ca_file: File of the certificates (PEM) that the server is trusted by.
        ssl_cert_file: File of the client's own certificate (PEM), perhaps with those
            that lead from it to one that the server trusts.
        ssl_key_file: File of that certificate's private key (PEM), not encrypted.

    Raises:
        UserError: If a file is missing or is not such a file, the key is another
            certificate's, or only some of the files are given.
    """
    own = {"ssl_cert_file": ssl_cert_file, "ssl_key_file": ssl_key_file}
    given = [f"--{flag}" for flag, path in own.items() if path]
    if len(given) == 1:
        raise UserError(
            "--ssl_cert_file and --ssl_key_file are a certificate and its key. "
            f"Received: {given[0]} alone. Give both, or neither."
        )
    if given and not ssl_ca_file:
        raise UserError(
            f"{' and '.join(given)} are for TLS. Add --ssl_ca_file, the certificates "
            "to verify the server with."
        )
    if not ssl_ca_file:
        return None
    certificates = _read_certificates("ssl_ca_file", ssl_ca_file)
    if not ssl_cert_file or not ssl_key_file:
        return grpc.ssl_channel_credentials(certificates)
    chain = _read_certificates("ssl_cert_file", ssl_cert_file)
    key = _read_key(ssl_cert_file, ssl_key_file)
    return grpc.ssl_channel_credentials(certificates, key, chain)


def _read_certificates(flag: str, path: str) -> bytes:
    """Returns the bytes of a file of certificates, after a check."""
    # ssl is imported here, because a connection without TLS does not need it.
    import ssl

    text = _read_file(flag, path, "certificates")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError as error:
        raise _unusable(flag, path, "certificates", str(error.reason)) from error
    return text


def _read_key(certificate: str, path: str) -> bytes:
    """Returns the bytes of the file of a certificate's private key, after a check."""
    import ssl

    def refuse_password() -> str:
        raise UserError(
            f"--ssl_key_file={path} is encrypted. Decrypt it into a file that only you "
            "can read: openssl pkey -in KEY -out FILE"
        )

    text = _read_file("ssl_key_file", path, "a private key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_cert_chain(certificate, path, refuse_password)
    except ssl.SSLError as error:
        if error.reason in _OTHER_KEY:
            raise UserError(
                f"--ssl_key_file={path} is the key of another certificate than "
                f"--ssl_cert_file={certificate}. Give the key that it was made with."
            ) from error
        raise _unusable(
            "ssl_key_file", path, "a private key", str(error.reason)
        ) from error
    return text


def _read_file(flag: str, path: str, kind: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _unusable(flag, path, kind, str(error.strerror)) from error


def _unusable(flag: str, path: str, kind: str, fault: str) -> UserError:
    return UserError(f"--{flag}={path} is not a file of {kind} (PEM): {fault}.")
