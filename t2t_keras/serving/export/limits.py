"""What one request may ask of an export, whatever it sends."""

import dataclasses

# Strength of the length penalty at which a server stops to believe the client. Well
# before it, length alone decides.
MAX_ALPHA = 10.0


@dataclasses.dataclass(frozen=True)
class ServingLimits:
    """Bounds on the work of a request. What is beyond them is cut, never refused.

    An error would fail all requests that a server has joined into one batch.

    Attributes:
        source_length: Most tokens of a source, EOS counted.
        target_length: Most tokens of a target to score, EOS counted.
        characters: Most code points of a normalised source, or None for as many as
            `source_length` allows anyway.
        attention_length: Most tokens of either side whose attention is asked for:
            the answer grows with its square.
        beam_size: Most live hypotheses a sentence, where a request may choose.
        n_best: N, translations of each text where several are asked for.

    Raises:
        ValueError: If one is below 1.
    """

    source_length: int
    target_length: int
    characters: int | None = None
    attention_length: int = 64
    beam_size: int = 8
    n_best: int = 4

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1. Received: {value}")
