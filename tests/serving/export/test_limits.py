import dataclasses

import pytest

from t2t_keras.serving.export.limits import ServingLimits


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(ServingLimits)])
def test_no_limit_is_below_one(field):
    fine = {"source_length": 1, "target_length": 1}
    ServingLimits(**{**fine, field: 1})
    with pytest.raises(ValueError, match=rf"{field} must be at least 1\. Received: 0"):
        ServingLimits(**{**fine, field: 0})
