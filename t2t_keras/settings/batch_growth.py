"""Growth of the batch during training: how many batches of the plan an update uses."""

import dataclasses
import itertools
from collections.abc import Sequence

from t2t_keras.errors import UserError

MAX_BATCHES_PER_UPDATE = 1024
"""Most batches of the plan that an update may use."""
MAX_GROWING_TOKENS = 2**20
"""Most tokens, and so most rows, of a batch of the plan if the batch grows."""


@dataclasses.dataclass(frozen=True)
class BatchGrowth:
    """Number of consecutive batches of the plan whose gradients an update adds.

    The plan of an epoch stays that of --tokens_per_batch. So every pair comes once in
    an epoch at any size, a larger update compiles no new shape and needs the memory of
    one batch and a sum of gradients, and the position in the data is a function of the
    number of updates.

    Attributes:
        phases: (updates before it, batches per update) of each phase, ascending, the
            first from update 0.
    """

    phases: tuple[tuple[int, int], ...] = ((0, 1),)

    @classmethod
    def parse(cls, items: Sequence[str], tokens_per_batch: int) -> "BatchGrowth":
        """Returns what --tokens_per_batch_steps says.

        Args:
            items: UPDATES:TOKENS each: after so many updates, so many tokens.
            tokens_per_batch: Tokens of a batch of the plan.

        Raises:
            UserError: If an item is not two numbers, the updates do not rise, or the
                tokens are not a multiple of `tokens_per_batch`.
        """
        if items and tokens_per_batch > MAX_GROWING_TOKENS:
            raise UserError(
                "--tokens_per_batch_steps needs --tokens_per_batch of at most "
                f"{MAX_GROWING_TOKENS}. Received: {tokens_per_batch}"
            )
        phases = [(0, 1)]
        for item in items:
            first, _, tokens = item.partition(":")
            if not (first.isdecimal() and tokens.isdecimal()):
                raise UserError(
                    "--tokens_per_batch_steps must be UPDATES:TOKENS, such as "
                    "2000:50000, separated by commas. "
                    f"Received: {','.join(items)}"
                )
            count, rest = divmod(int(tokens), tokens_per_batch)
            if rest or not 1 <= count <= MAX_BATCHES_PER_UPDATE:
                raise UserError(
                    "Tokens of --tokens_per_batch_steps must be a multiple of "
                    f"--tokens_per_batch={tokens_per_batch}, at most "
                    f"{MAX_BATCHES_PER_UPDATE} times as many. Received: {item}"
                )
            phases.append((int(first), count))
        for (before, _), (after, _) in itertools.pairwise(phases):
            if before >= after:
                raise UserError(
                    "Updates of --tokens_per_batch_steps must rise, from 1. "
                    f"Received: {','.join(items)}"
                )
        return cls(tuple(phases))

    @property
    def has_several(self) -> bool:
        """Whether any update uses more than one batch."""
        return any(count > 1 for _, count in self.phases)

    def batches(self, step: int) -> int:
        """Returns the number of batches of an update, by its number from 1.

        >>> [BatchGrowth(((0, 1), (2, 4))).batches(step) for step in (1, 2, 3)]
        [1, 1, 4]
        """
        return max(phase for phase in self.phases if phase[0] < step)[1]

    def batches_before(self, step: int) -> int:
        """Returns the number of batches of the updates before one, from 1.

        >>> [BatchGrowth(((0, 1), (2, 4))).batches_before(step) for step in (1, 3, 5)]
        [0, 2, 10]
        """
        ends = [first for first, _ in self.phases[1:]]
        return sum(
            count * max(min(end, step - 1) - first, 0)
            for (first, count), end in zip(self.phases, [*ends, step], strict=True)
        )

    def updates(self, batches: int) -> int:
        """Returns the fewest updates that use at least so many batches.

        >>> [BatchGrowth(((0, 1), (2, 4))).updates(count) for count in (2, 3, 6, 7)]
        [2, 3, 3, 4]
        """
        first, count = next(
            (first, count)
            for first, count in reversed(self.phases)
            if not first or self.batches_before(first + 1) < batches
        )
        return first - (self.batches_before(first + 1) - batches) // count
