"""Warm-up requests: they run like requests, and a failure fails the load."""

from types import MappingProxyType

import pytest
from tensorflow_serving.apis import prediction_log_pb2

from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.tf_serving.loading import warm_up
from tests.server.tf_serving.warm_up_requests import predict_log, write


@pytest.fixture
def counting_run(session):
    """A run function that records the number of rows."""
    seen = []

    def run(feeds, fetches, timeout_seconds, cancel_token=None):
        seen.append([len(value) for value in feeds.values()])
        return session.run(feeds, fetches, timeout_seconds, cancel_token)

    run.seen = seen
    return run


def test_each_record_is_run_in_order(session, counting_run, tmp_path):
    write(
        tmp_path,
        predict_log(text=[b"a", b"b"]),
        predict_log("picky", text=[b"a"] * 5),
        predict_log("sums", ids=[[1, 2]]),
    )
    assert warm_up(tmp_path, counting_run, session.signatures) == 3
    assert counting_run.seen == [[2], [5], [1]]


def test_records_can_be_run_several_times(session, counting_run, tmp_path):
    write(tmp_path, predict_log(text=[b"a"]), predict_log(text=[b"a", b"b"]))
    warm_up(tmp_path, counting_run, session.signatures, iterations=2)
    assert counting_run.seen == [[1], [1], [2], [2]]


def test_an_export_need_not_have_any(session, counting_run, tmp_path):
    assert warm_up(tmp_path, counting_run, session.signatures) == 0
    assert counting_run.seen == []


FAILING = MappingProxyType(
    {
        "a request that fails": (
            predict_log("picky", text=[b"poison"]),
            "INVALID_ARGUMENT",
            "poison",
        ),
        "a signature that is gone": (
            predict_log("x"),
            "FAILED_PRECONDITION",
            '"x" not',
        ),
        "no log at all": (b"\xff\xff\xff", "INVALID_ARGUMENT", "Failed to parse"),
        "to classify": (
            prediction_log_pb2.PredictionLog(
                classify_log=prediction_log_pb2.ClassifyLog()
            ),
            "UNIMPLEMENTED",
            "Unsupported log_type for warmup: classify_log; expected predict_log",
        ),
    }
)


@pytest.mark.parametrize(
    ("record", "code", "message"), FAILING.values(), ids=FAILING.keys()
)
def test_a_failing_record_fails_the_warm_up(
    session, counting_run, tmp_path, record, code, message
):
    write(tmp_path, predict_log(text=[b"a"]), record)
    with pytest.raises(ServingError) as caught:
        warm_up(tmp_path, counting_run, session.signatures)
    assert caught.value.code.name == code
    assert message in caught.value.message


@pytest.mark.slow
@pytest.mark.parametrize(("count", "fits"), [(1000, True), (1001, False)])
def test_at_most_a_thousand_records_are_allowed(session, tmp_path, count, fits):
    def run(feeds, fetches, timeout_seconds, cancel_token=None):
        return session.run(feeds, fetches, timeout_seconds, cancel_token)

    write(tmp_path, *[predict_log(text=[b"a"])] * count)
    if fits:
        assert warm_up(tmp_path, run, session.signatures) == count
    else:
        with pytest.raises(ServingError, match=r"exceeds the maximum \(1000\)"):
            warm_up(tmp_path, run, session.signatures)


@pytest.mark.parametrize("damage", ["cut", "text"])
def test_a_damaged_file_is_refused(session, counting_run, tmp_path, damage):
    path = write(tmp_path, predict_log(text=[b"a"]))
    whole = path.read_bytes()
    path.write_bytes(whole[:-3] if damage == "cut" else b"These are no records. " * 9)
    with pytest.raises(ServingError, match="is in TFRecord format") as caught:
        warm_up(tmp_path, counting_run, session.signatures)
    assert caught.value.code.name == "DATA_LOSS"
