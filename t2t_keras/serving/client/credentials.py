"""TLS credentials of the client, from a file of certificates."""

from pathlib import Path

import grpc

from t2t_keras.errors import UserError


def read_credentials(path: str | None) -> grpc.ChannelCredentials | None:
    """Returns the credentials of a connection, None for an unencrypted one.

    Args:
        path: File of the certificates (PEM) that the server is trusted by.

    Raises:
        UserError: If it is not such a file.
    """
    if not path:
        return None
    certificates = Path(path).read_bytes() if Path(path).is_file() else b""
    if b"-----BEGIN CERTIFICATE-----" not in certificates:
        raise UserError(f"--ssl_ca_file={path} is not a file of certificates (PEM).")
    return grpc.ssl_channel_credentials(certificates)
