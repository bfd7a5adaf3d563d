"""Settings of sampling, checked without TensorFlow."""

import dataclasses

from t2t_keras.errors import UserError
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class SamplingSettings(Settings):
    """Settings of sampling.

    Both limits, `top_k` and `top_p`, keep the lower id of equally likely tokens. With
    both, `top_p` is a fraction of the probability of the `top_k` tokens.

    Raises:
        UserError: If a value is outside its range.

    Source: Fan et al. 2018 for `top_k`, Holtzman et al. 2020 for `top_p`.
    """

    # Logits divided by a lower temperature overflow float32.
    temperature: float = setting(
        1.0,
        "Divisor of the logits with --sample: below 1 likely tokens become likelier.",
        low=1e-6,
    )
    top_k: int = setting(
        0,
        "Number of likeliest tokens that --sample draws from; 0 for all.",
        low=0,
    )
    top_p: float = setting(
        1.0,
        "Probability, from 0 to 1, of the smallest set of likeliest tokens that "
        "--sample draws from; 1 for all.",
        high=1,
    )
    seed: int = setting(
        1,
        "Seed of the random numbers of lines with --sample, from 0 to 2^31 - 1.",
        low=0,
        high=2**31 - 1,
    )

    def check(self) -> None:
        if self.top_p <= 0:
            raise UserError(
                f"--top_p must be more than 0 and at most 1. Received: {self.top_p}"
            )
