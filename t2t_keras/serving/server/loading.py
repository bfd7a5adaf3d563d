"""Loading of a version of a model from its directory."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.files.quiet import quiet_start_up
from t2t_keras.serving.server.batching import BatchScheduler
from t2t_keras.serving.server.joined import JoinedRun
from t2t_keras.serving.server.session import ModelSession, RunFn
from t2t_keras.serving.server.warm_up import warm_up


class Servable(NamedTuple):
    """A loaded version.

    Attributes:
        run: Runs a part of its graph.
        signatures: Its `SignatureDef`s by name.
        close: Frees it.
    """

    run: RunFn
    signatures: Mapping[str, Any]
    close: Callable[[], None]


@dataclass(frozen=True)
class Loader:
    """Loader of versions.

    Attributes:
        session_config: Configuration of each session.
        scheduler: Scheduler of batches; `None` runs each request by itself.
        warm_up_iterations: Number of times that each warm-up request is run; 0 for
            none.
    """

    session_config: tf.compat.v1.ConfigProto | None = None
    scheduler: BatchScheduler | None = None
    warm_up_iterations: int = 1
    # Two at a time are not faster, and double the memory.
    _loading: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, directory: Path) -> Servable:
        """Loads a version and runs its warm-up requests.

        Raises:
            ServingError: If it cannot be loaded, or a warm-up request fails.
        """
        # The tokenizer's library prints a line when it is first used.
        with self._loading, quiet_start_up():
            session = ModelSession(directory, self.session_config)
            run: RunFn = session.run
            if self.scheduler is not None:
                run = JoinedRun(session.run, self.scheduler)
            try:
                if self.warm_up_iterations:
                    warm_up(directory, run, session.signatures, self.warm_up_iterations)
            except BaseException:
                session.close()
                raise
        return Servable(run, session.signatures, session.close)
