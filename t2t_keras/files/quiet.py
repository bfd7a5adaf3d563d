"""Quiet start-up of TensorFlow."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from t2t_keras.files.signals import undo_if_interrupted


@contextmanager
def quiet_start_up() -> Iterator[None]:
    """Suppresses what native code prints to standard error during an import.

    TensorFlow 2.21 prints a dozen lines on import that no environment variable
    suppresses, because its logger is not set up yet. They are printed if the import
    fails, and always with TF_CPP_MIN_LOG_LEVEL=0.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0":
        yield
        return
    sys.stderr.flush()
    real = os.dup(2)
    with tempfile.TemporaryFile() as held:
        try:
            with undo_if_interrupted(lambda: os.dup2(real, 2)):
                os.dup2(held.fileno(), 2)
                yield
        except BaseException:
            held.seek(0)
            os.write(2, held.read())
            raise
        finally:
            os.close(real)
