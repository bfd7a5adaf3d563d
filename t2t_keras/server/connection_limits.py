"""Numbers of connections that leave file descriptors to all else.

With none left, a native thread of TensorFlow ends the process, and Python can neither
import nor log. So connections leave some to all else, those of gRPC and those over HTTP
each without the other: gRPC's are limited to a share, which those over HTTP leave free.
"""

from t2t_keras.files import descriptors

# What connections leave to all else: files of models, logs, TensorFlow's own.
_RESERVED = 16
# One of so many descriptors may be a gRPC connection.
_GRPC_DIVISOR = 4


def max_grpc_connections() -> int | None:
    """Returns how many connections gRPC may accept at a time; None for no limit."""
    most = descriptors.limit()
    return None if most is None else max(1, most // _GRPC_DIVISOR)


def end_of_http() -> int | None:
    """Returns the number from which on a descriptor is none for a connection over HTTP.

    None for no limit. The system gives each file the smallest number that is free.
    Connections of gRPC that came before have small ones, and so count twice.
    """
    most = descriptors.limit()
    return None if most is None else most - most // _GRPC_DIVISOR - _RESERVED
