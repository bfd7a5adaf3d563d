"""Cancellation: steps stop, slots are used again, and no other request is touched."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.workers import CancelToken
from tests.server.tf_serving.clients import wait_until

MORE_THAN_SLOTS = 40


def run(session, signature, cancel_token=None, timeout=None, **inputs):
    contract = session.signatures[signature]
    feeds = {contract.inputs[name].name: value for name, value in inputs.items()}
    names = sorted(contract.outputs)
    fetches = [contract.outputs[name].name for name in names]
    return session.run(feeds, fetches, timeout, cancel_token)[0].tolist()


def code_of(call):
    try:
        return call()
    except ServingError as error:
        return error.code.name


def busy(session, cancel_token, seconds, timeout=None):
    value = np.array([seconds], np.float32)
    return code_of(lambda: run(session, "busy", cancel_token, timeout, seconds=value))


def test_canceling_after_the_end_does_not_stop_the_next(session):
    for _ in range(MORE_THAN_SLOTS):
        token = CancelToken()
        assert busy(session, token, 0.0) == [0.0]
        token.cancel()


def test_canceling_at_any_time_touches_no_other_request(session):
    """Half of the requests are canceled, around the time at which they end."""

    def ask(index):
        generator = random.Random(index)
        token = CancelToken()
        seconds = generator.choice([0.0, 0.001, 0.01])
        timer = threading.Timer(generator.uniform(0, 0.02), token.cancel)
        if index % 2:
            timer.start()
        answer = busy(session, token, seconds)
        timer.cancel()
        return answer, seconds

    with ThreadPoolExecutor(8) as pool:
        for index, (answer, seconds) in enumerate(pool.map(ask, range(400))):
            if not (index % 2 and answer == "CANCELLED"):
                assert answer == pytest.approx([seconds]), index


def test_waiting_for_a_slot_ends_with_the_token_or_the_deadline(session, tmp_path):
    end = tmp_path / "end"
    file = np.array([bytes(end)], object)
    with ThreadPoolExecutor(MORE_THAN_SLOTS) as pool:
        try:
            slots = session._cancellation._free.qsize()
            running = [
                pool.submit(run, session, "wait", text=file) for _ in range(slots)
            ]
            wait_until(lambda: Path(f"{end}.begun").exists())
            wait_until(session._cancellation._free.empty)
            assert busy(session, CancelToken(), 0.0, 0.2) == "DEADLINE_EXCEEDED"
            token = CancelToken()
            threading.Timer(0.2, token.cancel).start()
            assert busy(session, token, 0.0) == "CANCELLED"
        finally:
            end.touch()
        assert [each.result() for each in running] == [[bytes(end).upper()]] * slots
    assert busy(session, CancelToken(), 0.0) == [0.0]
