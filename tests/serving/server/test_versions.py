"""The life of versions: order of loading and unloading, retries, requests in flight."""

import threading
from pathlib import Path

import pytest

from t2t_keras.serving.server.errors import ServingError, invalid_argument
from t2t_keras.serving.server.loading import Servable
from t2t_keras.serving.server.versions import ModelVersions, Retries, State
from tests.serving.server.clients import wait_until


class Shelf:
    """Loads versions when told to, and keeps a diary."""

    def __init__(self, retries=None):
        self.diary: list[str] = []
        self.fail: set[str] = set()
        self.slow: dict[str, threading.Event] = {}
        self.begun: list[str] = []
        self.lines: list[str] = []
        self.model = ModelVersions(
            "m",
            self.load,
            retries or Retries(0, 0.0),
            threading.Condition(),
            self.log,
        )

    def log(self, line: str) -> None:
        (self.begun if " loading from " in line else self.lines).append(line)

    def load(self, directory: Path) -> Servable:
        name = directory.name
        self.diary.append(f"load {name}")
        if name in self.slow:
            self.slow[name].wait(60)
        if name in self.fail:
            raise invalid_argument(f"{name} is rotten")

        def run(feeds, fetches, timeout_seconds):
            return []

        return Servable(run, {}, lambda: self.diary.append(f"close {name}"))

    def want(self, *numbers):
        self.model.want({number: Path(f"/base/{number}") for number in numbers})

    def states(self):
        return {version.number: version.state for version in self.model.versions()}

    def wait(self, **states):
        wanted = {int(key[1:]): state for key, state in states.items()}
        wait_until(lambda: self.states() == wanted, self.states)


def test_a_version_is_loaded_used_and_unloaded():
    shelf = Shelf()
    shelf.want(1)
    shelf.wait(v1=State.AVAILABLE)
    with shelf.model.use(None) as (number, servable):
        assert number == 1
        assert servable.run({}, [], None) == []
    shelf.want()
    shelf.wait(v1=State.END)
    assert shelf.diary == ["load 1", "close 1"]
    assert shelf.begun == ["m version 1 loading from /base/1 …"]
    assert shelf.lines[0].startswith("m version 1 loaded in ")
    assert shelf.lines[1:] == ["m version 1 unloaded"]


def test_the_old_version_stays_until_the_new_one_can_answer():
    shelf = Shelf()
    shelf.want(1)
    shelf.wait(v1=State.AVAILABLE)
    shelf.slow["2"] = threading.Event()
    shelf.want(2)
    shelf.wait(v2=State.LOADING, v1=State.AVAILABLE)
    with shelf.model.use(None) as (number, _):
        assert number == 1
    shelf.slow["2"].set()
    shelf.wait(v2=State.AVAILABLE, v1=State.END)
    assert shelf.diary == ["load 1", "load 2", "close 1"]


def test_the_old_version_stays_for_good_if_the_new_one_fails():
    shelf = Shelf()
    shelf.want(1)
    shelf.wait(v1=State.AVAILABLE)
    shelf.fail.add("2")
    shelf.want(2)
    shelf.wait(v2=State.END, v1=State.AVAILABLE)
    assert (
        "m version 2 could not be loaded: INVALID_ARGUMENT: 2 is rotten"
        in (shelf.lines[-1])
    )
    (failed, _) = shelf.model.versions()
    assert failed.error.message == "2 is rotten"
    # Looking again does not load it again; replacing it does.
    shelf.want(2)
    assert shelf.model.versions()[0] is failed
    shelf.want(1)
    shelf.fail.clear()
    shelf.want(2)
    shelf.wait(v2=State.AVAILABLE, v1=State.END)


def test_one_that_is_loaded_too_late_stands_in_for_nobody():
    shelf = Shelf()
    shelf.want(3)
    shelf.wait(v3=State.AVAILABLE)
    shelf.slow |= {"4": threading.Event(), "5": threading.Event()}
    shelf.want(4)
    shelf.wait(v3=State.AVAILABLE, v4=State.LOADING)
    shelf.want(5)
    shelf.wait(v3=State.AVAILABLE, v4=State.LOADING, v5=State.LOADING)
    shelf.slow["4"].set()
    shelf.wait(v3=State.AVAILABLE, v4=State.END, v5=State.LOADING)
    shelf.slow["5"].set()
    shelf.wait(v3=State.END, v4=State.END, v5=State.AVAILABLE)
    assert [line for line in shelf.diary if "close" in line] == ["close 4", "close 3"]
    assert shelf.model.versions()[1].error is None


def test_a_request_in_flight_keeps_its_version():
    shelf = Shelf()
    shelf.want(1)
    shelf.wait(v1=State.AVAILABLE)
    with shelf.model.use(None) as (number, _):
        shelf.want(2)
        shelf.wait(v2=State.AVAILABLE, v1=State.UNLOADING)
        assert number == 1
        assert "close 1" not in shelf.diary
        # Nobody else gets it any more.
        with pytest.raises(ServingError, match=r"Specific\(m, 1\)"):
            shelf.model.use(1).__enter__()
        with shelf.model.use(None) as (other, _):
            assert other == 2
    shelf.wait(v2=State.AVAILABLE, v1=State.END)


def test_an_error_in_a_request_gives_the_version_back():
    shelf = Shelf()
    shelf.want(1)
    shelf.wait(v1=State.AVAILABLE)
    with pytest.raises(ZeroDivisionError), shelf.model.use(1):
        raise ZeroDivisionError
    shelf.want()
    shelf.wait(v1=State.END)


def test_loading_is_tried_again():
    shelf = Shelf(Retries(10**6, 0.01))
    shelf.fail.add("1")
    shelf.want(1)
    wait_until(lambda: len(shelf.diary) >= 2)
    shelf.fail.clear()
    shelf.wait(v1=State.AVAILABLE)
    assert shelf.lines[0].endswith("1 is rotten; trying again in 0.01 s")
    assert shelf.model.versions()[0].error is None


def test_there_is_no_error_before_loading_is_given_up():
    """TensorFlow Serving tells of a version in LOADING with OK."""
    shelf = Shelf(Retries(1, 1000.0))
    shelf.fail.add("1")
    shelf.want(1)
    wait_until(lambda: len(shelf.lines) == 1)
    (version,) = shelf.model.versions()
    assert (version.state, version.error) == (State.LOADING, None)
    shelf.want()
    shelf.wait(v1=State.END)
    assert version.error.message == "1 is rotten"


def test_the_newest_of_the_old_versions_stands_in_alone():
    shelf = Shelf()
    shelf.want(1, 3, 2)
    shelf.wait(v3=State.AVAILABLE, v2=State.AVAILABLE, v1=State.AVAILABLE)
    shelf.slow["4"] = threading.Event()
    shelf.want(4)
    end = State.END
    shelf.wait(v4=State.LOADING, v3=State.AVAILABLE, v2=end, v1=end)
    shelf.slow["4"].set()
    shelf.wait(v4=State.AVAILABLE, v3=end, v2=end, v1=end)


def test_loading_is_given_up_in_the_end():
    shelf = Shelf(Retries(3, 0.001))
    shelf.fail.add("1")
    shelf.want(1)
    shelf.wait(v1=State.END)
    assert shelf.diary == ["load 1"] * 4
    assert [line.split("; ")[1] for line in shelf.lines] == [
        *["trying again in 0.001 s"] * 3,
        "giving up",
    ]


def test_what_is_not_wanted_any_more_is_not_tried_again():
    shelf = Shelf(Retries(5, 1000.0))
    shelf.fail.add("1")
    shelf.want(1)
    wait_until(lambda: len(shelf.lines) == 1)
    shelf.want()
    shelf.wait(v1=State.END)
    assert shelf.diary == ["load 1"]


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_away_while_it_was_loading_is_begun_anew(fails):
    """Nothing comes of what was begun before, be it a failure or an old servable."""
    shelf = Shelf()
    begun = shelf.slow["1"] = threading.Event()
    shelf.want(1)
    wait_until(lambda: shelf.diary == ["load 1"])
    shelf.want()
    del shelf.slow["1"]
    shelf.want(1)
    shelf.wait(v1=State.AVAILABLE)
    (new,) = shelf.model.versions()
    if fails:
        shelf.fail.add("1")
    begun.set()
    wait_until(lambda: len(shelf.lines) == (2 if fails else 3))
    assert ("giving up" if fails else "unloaded") in shelf.lines[-1]
    assert shelf.diary == ["load 1"] * 2 + ([] if fails else ["close 1"])
    assert shelf.model.versions() == [new]
    with shelf.model.use(1) as (_, servable):
        assert servable is new.servable


def test_a_version_that_was_dropped_while_it_was_loading_goes_again():
    shelf = Shelf()
    shelf.slow["1"] = threading.Event()
    shelf.want(1)
    shelf.wait(v1=State.LOADING)
    shelf.want()
    shelf.slow["1"].set()
    shelf.wait(v1=State.END)
    assert shelf.diary == ["load 1", "close 1"]


def test_several_versions_at_a_time():
    shelf = Shelf()
    shelf.want(1, 2, 10)
    shelf.wait(v10=State.AVAILABLE, v2=State.AVAILABLE, v1=State.AVAILABLE)
    assert list(shelf.states()) == [10, 2, 1]  # the newest first
    with shelf.model.use(2) as (number, _):
        assert number == 2
    with shelf.model.use(None) as (number, _):
        assert number == 10
    # 10 goes at once: 2 is wanted and can answer.
    shelf.want(1, 2)
    shelf.wait(v10=State.END, v2=State.AVAILABLE, v1=State.AVAILABLE)


@pytest.mark.parametrize(
    ("number", "wanted"), [(None, "Latest(m)"), (7, "Specific(m, 7)")]
)
def test_what_is_not_there_is_not_found(number, wanted):
    with pytest.raises(ServingError) as caught, Shelf().model.use(number):
        pass
    assert caught.value.code.name == "NOT_FOUND"
    assert caught.value.message == f"Servable not found for request: {wanted}"
