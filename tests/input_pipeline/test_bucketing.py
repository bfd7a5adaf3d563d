import pytest

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.bucketing import bucket_bounds, bucket_rows


@pytest.mark.parametrize(
    ("max_length", "bounds"),
    [
        (256, (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)),  # Tensor2Tensor, base
        (100, (8, 12, 16, 24, 32, 48, 64, 96, 100)),
        (96, (8, 12, 16, 24, 32, 48, 64, 96)),
        (600, (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 600)),
        (8, (8,)),
        (5, (5,)),
        (2, (2,)),
    ],
)
def test_bounds(max_length, bounds):
    assert bucket_bounds(max_length) == bounds


def test_other_ladders():
    assert bucket_bounds(64, 1) == (8, 16, 32, 64)
    # Tensor2Tensor, big: 21 buckets up to 256.
    big = (8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
    assert bucket_bounds(256, 4) == (*big, 160, 192, 224, 256)
    assert bucket_bounds(20, 8) == (8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20)


def test_rows():
    assert bucket_rows((8, 12, 16), 100) == (12, 8, 6)
    # Section 5.1: about 25,000 source tokens and as many target tokens.
    bounds = bucket_bounds(256)
    for bound, rows in zip(bounds, bucket_rows(bounds, 25_000), strict=True):
        assert rows * bound <= 25_000 < (rows + 1) * bound


def test_a_budget_that_holds_no_long_pair():
    with pytest.raises(UserError, match=r"length needs 256.*per_batch to 256"):
        bucket_rows(bucket_bounds(256), 255)


def test_arguments_that_cannot_be_meant():
    with pytest.raises(ValueError, match=r"at least 2\. Received: 1"):
        bucket_bounds(1)
    with pytest.raises(ValueError, match=r"1, 2, 4 or 8\. Received: 3"):
        bucket_bounds(64, 3)
    for bounds in ((), (8, 8), (16, 8), (1, 8)):
        with pytest.raises(ValueError, match="bounds must be ascending"):
            bucket_rows(bounds, 100)
