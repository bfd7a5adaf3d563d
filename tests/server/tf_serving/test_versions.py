"""Life cycle of versions: loading and unloading, retries, requests in flight."""

import threading
from pathlib import Path

import pytest

from t2t_keras.server.tf_serving.errors import invalid_argument
from t2t_keras.server.tf_serving.loading import Servable
from t2t_keras.server.tf_serving.versions import ModelVersions, Retries, State
from tests.server.tf_serving.clients import wait_until


class Harness:
    """Versions of a model with a fake loader, which records its calls.

    Attributes:
        events: Calls of the loader and of `close`.
        fail: Versions whose loading fails.
        slow: Versions whose loading waits for an event.
    """

    def __init__(self, logged, retries=None):
        self.events: list[str] = []
        self.fail: set[str] = set()
        self.slow: dict[str, threading.Event] = {}
        self._logged = logged
        self.model = ModelVersions(
            "m",
            self.load,
            retries or Retries(0, 0.0),
            threading.Condition(),
        )

    @property
    def lines(self):
        """The log lines, without those about the start of loading."""
        return [line for line in self._logged if " loading from " not in line]

    def load(self, directory: Path) -> Servable:
        name = directory.name
        self.events.append(f"load {name}")
        if name in self.slow:
            self.slow[name].wait(60)
        if name in self.fail:
            raise invalid_argument(f"{name} is rotten")

        def run(feeds, fetches, timeout_seconds, cancel_token=None):
            return []

        return Servable(run, {}, lambda: self.events.append(f"close {name}"))

    def want(self, *numbers):
        self.model.want({number: Path(f"/base/{number}") for number in numbers})

    def states(self):
        return {version.number: version.state for version in self.model.versions()}

    def wait(self, **states):
        expected = {int(key[1:]): state for key, state in states.items()}
        wait_until(lambda: self.states() == expected, self.states)


def test_a_version_is_loaded_used_and_unloaded(logged):
    harness = Harness(logged)
    harness.want(1)
    harness.wait(v1=State.AVAILABLE)
    with harness.model.use(None) as (number, servable):
        assert number == 1
        assert servable.run({}, [], None) == []
    harness.want()
    harness.wait(v1=State.END)
    assert harness.events == ["load 1", "close 1"]
    assert logged[0] == "m version 1 loading from /base/1 …"
    assert harness.lines[0].startswith("m version 1 loaded in ")
    assert harness.lines[1:] == ["m version 1 unloaded"]


def test_the_old_version_stays_if_the_new_one_fails(logged):
    harness = Harness(logged)
    harness.want(1)
    harness.wait(v1=State.AVAILABLE)
    harness.fail.add("2")
    harness.want(2)
    harness.wait(v2=State.END, v1=State.AVAILABLE)
    assert (
        "m version 2 could not be loaded: INVALID_ARGUMENT: 2 is rotten"
        in (harness.lines[-1])
    )
    (failed, _) = harness.model.versions()
    assert failed.error.message == "2 is rotten"
    # Requesting it again does not load it again; replacing it does.
    harness.want(2)
    assert harness.model.versions()[0] is failed
    harness.want(1)
    harness.fail.clear()
    harness.want(2)
    harness.wait(v2=State.AVAILABLE, v1=State.END)


def test_a_version_that_loads_too_late_is_not_served(logged):
    harness = Harness(logged)
    harness.want(3)
    harness.wait(v3=State.AVAILABLE)
    harness.slow |= {"4": threading.Event(), "5": threading.Event()}
    harness.want(4)
    harness.wait(v3=State.AVAILABLE, v4=State.LOADING)
    harness.want(5)
    harness.wait(v3=State.AVAILABLE, v4=State.LOADING, v5=State.LOADING)
    harness.slow["4"].set()
    harness.wait(v3=State.AVAILABLE, v4=State.END, v5=State.LOADING)
    harness.slow["5"].set()
    harness.wait(v3=State.END, v4=State.END, v5=State.AVAILABLE)
    assert [line for line in harness.events if "close" in line] == [
        "close 4",
        "close 3",
    ]
    assert harness.model.versions()[1].error is None


def test_loading_is_retried(logged):
    harness = Harness(logged, Retries(10**6, 0.01))
    harness.fail.add("1")
    harness.want(1)
    wait_until(lambda: len(harness.events) >= 2)
    harness.fail.clear()
    harness.wait(v1=State.AVAILABLE)
    assert harness.lines[0].endswith("1 is rotten; trying again in 0.01 s")
    assert harness.model.versions()[0].error is None


def test_loading_is_given_up_after_all_retries(logged):
    harness = Harness(logged, Retries(3, 0.001))
    harness.fail.add("1")
    harness.want(1)
    harness.wait(v1=State.END)
    assert harness.events == ["load 1"] * 4
    assert [line.split("; ")[1] for line in harness.lines] == [
        *["trying again in 0.001 s"] * 3,
        "giving up",
    ]


def test_a_version_that_is_no_longer_wanted_is_not_retried(logged):
    """Until then it has no error, as in TensorFlow Serving."""
    harness = Harness(logged, Retries(5, 1000.0))
    harness.fail.add("1")
    harness.want(1)
    wait_until(lambda: len(harness.lines) == 1)
    (version,) = harness.model.versions()
    assert (version.state, version.error) == (State.LOADING, None)
    harness.want()
    harness.wait(v1=State.END)
    assert harness.events == ["load 1"]
    assert version.error.message == "1 is rotten"


@pytest.mark.parametrize("fails", [False, True])
def test_a_version_removed_and_added_while_loading_is_loaded_again(logged, fails):
    """The result of the first attempt, a failure or a servable, is discarded."""
    harness = Harness(logged)
    first_attempt = harness.slow["1"] = threading.Event()
    harness.want(1)
    wait_until(lambda: harness.events == ["load 1"])
    harness.want()
    del harness.slow["1"]
    harness.want(1)
    harness.wait(v1=State.AVAILABLE)
    (new,) = harness.model.versions()
    if fails:
        harness.fail.add("1")
    first_attempt.set()
    wait_until(lambda: len(harness.lines) == (2 if fails else 3))
    assert ("giving up" if fails else "unloaded") in harness.lines[-1]
    assert harness.events == ["load 1"] * 2 + ([] if fails else ["close 1"])
    assert harness.model.versions() == [new]
    with harness.model.use(1) as (_, servable):
        assert servable is new.servable
