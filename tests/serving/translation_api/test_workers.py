"""Work in threads: its number is bounded, and a client that leaves ends it."""

import asyncio
import threading

import pytest
from starlette.requests import ClientDisconnect

from t2t_keras.serving.http.requests import HttpError
from t2t_keras.serving.translation_api.workers import Workers
from tests.serving.translation_api.fake_backend import wait_until


class Request:
    """Request of a client that leaves when a test says so."""

    def __init__(self):
        self.left = asyncio.Event()

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}


def test_results_and_errors():
    async def main():
        workers = Workers(2, 0)
        assert await workers.run(Request(), lambda _: 5) == 5
        with pytest.raises(ZeroDivisionError):
            await workers.run(Request(), lambda _: 1 / 0)
        workers.close()

    asyncio.run(main())


def test_a_client_that_leaves_ends_its_work():
    stopped = threading.Event()

    def work(cancelled):
        assert cancelled.wait(60)
        stopped.set()

    async def main():
        workers = Workers(1, 1)
        first, second = Request(), Request()
        tasks = [
            asyncio.ensure_future(workers.run(each, work)) for each in (first, second)
        ]
        await asyncio.sleep(0)
        # Further requests are refused at once; so is the third.
        with pytest.raises(HttpError, match="too many requests"):
            await workers.run(Request(), work)
        # One that waits is never begun; one that runs is told.
        for request, task in zip((second, first), reversed(tasks), strict=True):
            request.left.set()
            with pytest.raises(ClientDisconnect):
                await task
        assert stopped.wait(60)
        # Both places are free again.
        for _ in range(2):
            for _ in range(100):
                try:
                    assert await workers.run(Request(), lambda _: 1) == 1
                    break
                except HttpError:
                    await asyncio.sleep(0.01)
        workers.close()

    asyncio.run(main())


def test_threads_end_with_the_workers():
    async def main():
        workers = Workers(1, 0)
        names = []
        await workers.run(
            Request(), lambda _: names.append(threading.current_thread().name)
        )
        workers.close()
        return names

    (name,) = asyncio.run(main())
    wait_until(lambda: name not in [each.name for each in threading.enumerate()])
