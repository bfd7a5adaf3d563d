"""The length penalty that makes hypotheses of unequal length comparable."""

import math
import numbers
from typing import Any


def length_penalty(length: Any, alpha: Any) -> Any:
    """Returns the divisor of a log probability: `((5 + length) / 6) ** alpha`.

    Every further token lowers a log probability, so plain log probabilities
    favour short sentences. Divided by the penalty, which grows with length,
    they compete on nearly equal terms.

    Args:
        length: Number of tokens, the EOS counted: an int, a NumPy array, or a
            tensor of a floating dtype.
        alpha: Strength, finite and at least 0. The paper uses 0.6 for
            translation; 0 switches the penalty off. A tensor of them, which
            broadcasts with `length`, is not checked.

    Returns:
        The penalty, of the kind and shape of both. It is 1 at length 1
        and never falls as the length grows, which `beam_search` relies on.

    Raises:
        ValueError: If `alpha` is negative or not finite.

    Source: Wu et al. 2016, equation 14; section 6.1 of "Attention Is All You
    Need" for the value of alpha.
    """
    if isinstance(alpha, numbers.Real) and not 0.0 <= float(alpha) < math.inf:
        raise ValueError(
            f"alpha must be a finite number that is at least 0. Received: alpha={alpha}"
        )
    return ((5.0 + length) / 6.0) ** alpha
