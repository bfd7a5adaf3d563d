"""Settings of every test: two devices, full float32 precision, fixed seeds."""

import gc
import os
import signal

# Set before Keras and TensorFlow are imported; overrides ~/.keras/keras.json.
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Iterator

import hypothesis
import pytest

from t2t_keras.files.logs import log_to
from t2t_keras.files.quiet import quiet_start_up
from tests import forked

SEED = 20170612
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Fixtures that take long: a trained model and two whole corpora. Their tests are slow.
SLOW_FIXTURES = frozenset({"reverse_run", "splits"})

# No deadline: the first call of a TensorFlow function traces for seconds.
# Derandomized: the same examples every time, so a failing test keeps failing.
hypothesis.settings.register_profile(
    "house", max_examples=50, deadline=None, derandomize=True
)
# The release tier tries more examples, and prints how to reproduce a failure.
hypothesis.settings.register_profile(
    "release",
    max_examples=1_000,
    deadline=None,
    derandomize=False,
    print_blob=True,
)


def pytest_configure(config: pytest.Config) -> None:
    """Sets what lasts for the whole run, before any test is imported."""
    # A process that a shell starts in the background ignores Ctrl-C, one that nohup
    # starts ignores SIGHUP; so would the programs that tests start and stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    hypothesis.settings.load_profile("release" if _is_release(config) else "house")
    # One for all workers of pytest-xdist, which inherit its address.
    forked.fork_server()
    if config.getoption("dist", "no") == "no" or hasattr(config, "workerinput"):
        _prepare_tensorflow()


def _prepare_tensorflow() -> None:
    """In the processes that run tests; the one that distributes them saves seconds."""
    # Until all modules are imported: nothing of them becomes garbage.
    gc.disable()
    with quiet_start_up():
        import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    # The smallest number that shows a mistake in summing over replicas.
    two = [tf.config.LogicalDeviceConfiguration() for _ in range(2)]
    tf.config.set_logical_device_configuration(cpu, two)
    tf.config.experimental.enable_tensor_float_32_execution(False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Function]
) -> None:
    """Adds tests to the slow and to the release tier."""
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if {"slow", "release"} <= marks:
            raise pytest.UsageError(f"{item.nodeid}: slow or release, not both")
        uses_slow = not SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
        if uses_slow and "release" not in marks:
            item.add_marker(pytest.mark.slow)
            marks.add("slow")
        is_property = getattr(item.obj, "is_hypothesis_test", False)
        if is_property and "slow" not in marks and _is_release(config):
            item.add_marker(pytest.mark.release)


def pytest_collection_finish() -> None:
    """Lets Python collect the garbage of tests, without a look at all modules."""
    gc.freeze()
    gc.enable()


def _is_release(config: pytest.Config) -> bool:
    chosen = config.getoption("markexpr")
    return "release" in chosen and "not release" not in chosen


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Sets the same seeds for each test: Python's, NumPy's and TensorFlow's."""
    import keras

    keras.utils.set_random_seed(SEED)


@pytest.fixture(autouse=True)
def global_settings_restored() -> Iterator[None]:
    """Fails a test that leaves the dtype policy or a signal handler changed."""
    import keras

    handlers = {each: signal.getsignal(each) for each in STOPPING}
    yield
    policy = keras.config.dtype_policy().name
    keras.config.set_dtype_policy("float32")
    left = {each: signal.getsignal(each) for each in STOPPING}
    for each, handler in handlers.items():
        signal.signal(each, handler)
    assert policy == "float32", f"the test left the dtype policy at {policy}"
    assert left == handlers, "the test left signal handlers changed"


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """The lines that the package logs during the test."""
    lines: list[str] = []
    with log_to(lines.append):
        yield lines
