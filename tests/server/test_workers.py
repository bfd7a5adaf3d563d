"""Workers: a bounded number of calls, which end with the tasks that wait for them."""

import asyncio
import gc
import itertools
import threading
import time

import pytest

from t2t_keras.server.workers import (
    Cancelled,
    CancelToken,
    Workers,
    WorkersBusyError,
    WorkersClosedError,
)
from tests.server.translation_api.fake_backend import wait_until


def test_functions_are_called_once_when_a_token_is_canceled():
    token, calls = CancelToken(), []
    with token.calling(lambda: calls.append("left before")):
        pass
    with token.calling(lambda: calls.append("inside")):
        assert not token.cancelled and not calls
        token.cancel()
        token.cancel()
        assert token.cancelled
    with token.calling(lambda: calls.append("late")):
        assert calls == ["inside", "late"]
    assert calls == ["inside", "late"]


def wait_for_token(token: CancelToken) -> None:
    """Work that ends when it is canceled."""
    cancelled = threading.Event()
    with token.calling(cancelled.set):
        assert cancelled.wait(60)


async def begin(workers, work, begun: threading.Event) -> asyncio.Task:
    """Returns the task of work, which has set `begun`."""
    task = asyncio.ensure_future(workers.run(work))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    return task


def test_work_ends_with_the_task_that_waits_for_it():
    begun = []

    def work(token):
        begun.append(token)
        wait_for_token(token)

    async def main():
        workers = Workers(1, max_waiting=1)
        running, waiting = (asyncio.ensure_future(workers.run(work)) for _ in range(2))
        while not begun:
            await asyncio.sleep(0.001)
        with pytest.raises(WorkersBusyError) as caught:
            await workers.run(work)
        assert caught.value.limit == 2
        # One that waits is never begun; one that runs is told.
        for task in (waiting, running):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await workers.drain(60)
        assert [token.cancelled for token in begun] == [True]
        with pytest.raises(WorkersClosedError):
            await workers.run(work)
        workers.close()

    asyncio.run(main())


def test_nothing_is_logged_of_work_that_fails_when_it_is_canceled(caplog):
    begun = threading.Event()

    def work(token):
        begun.set()
        wait_for_token(token)
        raise Cancelled

    async def main():
        workers = Workers(1)
        task = await begin(workers, work, begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await workers.drain(60)
        # asyncio logs an error that nobody has read when its future is deleted.
        del task
        await asyncio.sleep(0.01)
        gc.collect()
        workers.close()

    asyncio.run(main())
    assert not caplog.records


def test_a_place_is_free_only_when_its_call_has_ended():
    """A task that gives up leaves a call behind that goes on."""
    gate, begun = threading.Event(), threading.Event()

    def work(_):
        begun.set()
        assert gate.wait(60)

    async def main():
        workers = Workers(1)
        task = await begin(workers, work, begun)
        task.cancel()
        await asyncio.sleep(0.05)
        with pytest.raises(WorkersBusyError):
            await workers.run(work)
        gate.set()
        await workers.drain(60)
        workers.close()

    asyncio.run(main())


def test_draining_waits_for_calls_and_then_cancels_them():
    async def main(seconds):
        workers = Workers(1)
        gate, begun = threading.Event(), threading.Event()

        def work(token):
            begun.set()
            if seconds > 1:
                assert gate.wait(60)
            else:
                wait_for_token(token)
            return "answer"

        task = await begin(workers, work, begun)
        asyncio.get_running_loop().call_later(0.05, gate.set)
        start = time.monotonic()
        await workers.drain(seconds)
        assert time.monotonic() - start >= 0.05
        assert await task == "answer"
        workers.close()

    for seconds in (60, 0.1):
        asyncio.run(main(seconds))


def test_threads_end_with_the_workers():
    async def main():
        workers = Workers(1, name="work to end")
        names = []
        await workers.run(lambda _: names.append(threading.current_thread().name))
        workers.close()
        return names

    (name,) = asyncio.run(main())
    deadline = time.monotonic() + 60
    while name in [each.name for each in threading.enumerate()]:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_every_thread_is_prepared_before_the_first_call():
    prepared = set()
    workers = Workers(8, prepare=lambda: prepared.add(threading.get_ident()))
    assert len(prepared) == 8
    workers.close()


def test_a_thread_that_cannot_be_prepared_is_an_error_without_waiting():
    numbers = itertools.count()

    def prepare():
        if next(numbers) == 3:
            raise OSError("no descriptor")

    with pytest.raises(OSError, match="no descriptor"):
        Workers(8, name="prepared", prepare=prepare)
    wait_until(
        lambda: (
            not any(each.name.startswith("prepared") for each in threading.enumerate())
        )
    )
