"""Which checkpoints of a run to average, checked without TensorFlow."""

import dataclasses

from t2t_keras.errors import UserError
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class AverageOptions(Settings):
    """Checkpoints to average: the best, or those of a range of steps.

    Raises:
        UserError: If both are asked for, or a number is not a whole number.
    """

    last: int | None = setting(
        None,
        "Number of newest checkpoints to average, in the range of steps if one is "
        "given. Without it, all checkpoints of the range. Paper: base 5, big 20.",
        low=1,
    )
    from_step: int | None = setting(
        None,
        "First step of the range. Default with --last or --to_step: that of the oldest "
        "checkpoint.",
    )
    to_step: int | None = setting(
        None,
        "Last step of the range. Default with --last or --from_step: that of the "
        "newest checkpoint.",
    )
    best: int | None = setting(
        None,
        "Number of checkpoints with the best --monitor to average, of those that "
        "training kept with --keep_best. Default: a range, or the newest.",
        low=1,
    )

    def check(self) -> None:
        of_range = self.last, self.from_step, self.to_step
        if self.best is not None and of_range != (None, None, None):
            raise UserError(
                "--best selects checkpoints by their score, and excludes --last, "
                f"--from_step and --to_step. Received: --best={self.best}, "
                f"--last={self.last}, --from_step={self.from_step}, "
                f"--to_step={self.to_step}"
            )
