"""The trained models, shared by the tests of this folder."""

from tests.runs.trained_runs import (  # noqa: F401
    config,
    fake_stepper,
    make_translator,
    model_dir,
    own_run,
    own_short_run,
    reverse_run,
    short_run,
    subwords_learned_once,
    trained,
    unvalidated,
    vocabulary,
)
