"""Settings of beam search and of sampling, and the length penalty (section 6.1)."""

import dataclasses
import math
import numbers
from typing import Any, NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.settings.setting import Settings, setting
from t2t_keras.typing import Tensor

# The id of padding, which also starts every decoder input. It is never generated.
PAD_ID = 0

LENGTH_PENALTIES = ("gnmt", "power", "none")


def length_penalty(length: Any, alpha: Any, kind: str = "gnmt") -> Any:
    """Returns the divisor of a log probability.

    Every further token lowers a log probability, so plain log probabilities
    favor short sentences. The penalty grows with length and compensates for
    that.

    Args:
        length: Number of tokens, the EOS counted: an int, a NumPy array, or a
            tensor of a floating dtype.
        alpha: Strength, finite and at least 0. The paper uses 0.6 for
            translation; 0 disables the penalty. A tensor, which broadcasts with
            `length`, is not checked.
        kind: One of `LENGTH_PENALTIES`: "gnmt", `((5 + length) / 6) ** alpha`;
            "power", `length ** alpha`; "none", 1 for every alpha.

    Returns:
        The penalty, of the kind and shape of both. It is 1 at length 1
        and never falls as the length grows, which `beam_search` relies on.

    Raises:
        ValueError: If `alpha` is negative or not finite, or `kind` is unknown.

    Source: Wu et al. 2016, equation 14; section 6.1 of "Attention Is All You
    Need" for the value of alpha. "power" is the penalty of Marian, fairseq and
    transformers.
    """
    if isinstance(alpha, numbers.Real) and not 0.0 <= float(alpha) < math.inf:
        raise ValueError(
            f"alpha must be a finite number that is at least 0. Received: alpha={alpha}"
        )
    if kind == "gnmt":
        return ((5.0 + length) / 6.0) ** alpha
    if kind == "power":
        return (1.0 * length) ** alpha
    if kind == "none":
        return (1.0 * length) ** (0.0 * alpha)
    raise ValueError(
        f"length_penalty must be one of {', '.join(LENGTH_PENALTIES)}. "
        f"Received: length_penalty={kind}"
    )


@dataclasses.dataclass(frozen=True)
class BeamSearchSettings:
    """Settings of a beam search.

    Attributes:
        beam_size: W, live hypotheses per sentence, at least 1. The paper uses
            4 for translation; 1 is greedy search.
        alpha: Strength of the length penalty, at least 0; the paper's is 0.6.
        n_best: N, hypotheses returned per sentence, 1 to `beam_size`; None is
            `beam_size`. Asking for fewer lets a sentence stop earlier.
        early_stop: Whether a sentence stops once nothing can enter its n best.
            The result is the same without; only the time differs.
        eos_id: The id that ends a hypothesis, not 0.
        length_penalty: Kind of the length penalty; see the function of that name.
        suppressed: Ids that are never generated, in addition to padding. They keep
            their probability unless `renormalize` is set.
        min_length: Tokens before EOS is possible, so that a hypothesis has at least
            one more with it. A sentence's length limit takes precedence.
        no_repeat_ngram: n, if no n successive tokens may occur twice in a hypothesis;
            0 for no such rule. A hypothesis that cannot be continued is dropped.
        sampling: If given, W samples of each sentence are drawn instead of a search,
            and returned in the order of their numbers. A `Sampling`.
        renormalize: Whether the probabilities of the tokens that may follow add up to
            1, so that padding and suppressed tokens have none.

    Raises:
        ValueError: If a value is outside its range.
    """

    beam_size: int = 4
    alpha: float = 0.6
    n_best: int | None = None
    early_stop: bool = True
    eos_id: int = 1
    length_penalty: str = "gnmt"
    suppressed: tuple[int, ...] = ()
    min_length: int = 0
    no_repeat_ngram: int = 0
    sampling: Any = None
    renormalize: bool = False

    def __post_init__(self) -> None:
        if self.beam_size < 1:
            raise ValueError(
                f"beam_size must be at least 1. Received: beam_size={self.beam_size}"
            )
        if self.n_best is not None and not 1 <= self.n_best <= self.beam_size:
            raise ValueError(
                f"n_best must be from 1 to beam_size={self.beam_size}. "
                f"Received: n_best={self.n_best}"
            )
        if self.eos_id == PAD_ID or self.eos_id < 0:
            raise ValueError(
                f"eos_id must be positive, {PAD_ID} being padding. "
                f"Received: eos_id={self.eos_id}"
            )
        if self.eos_id in self.suppressed:
            raise ValueError(
                f"suppressed must not contain eos_id={self.eos_id}, or nothing would "
                f"end. Received: suppressed={self.suppressed}"
            )
        for name in ("min_length", "no_repeat_ngram"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"{name} must be at least 0. Received: {name}={getattr(self, name)}"
                )
        length_penalty(1, self.alpha, self.length_penalty)  # raises if out of range

    @property
    def results(self) -> int:
        """N, the number of hypotheses returned per sentence."""
        return self.beam_size if self.n_best is None else self.n_best

    @property
    def candidates(self) -> int:
        """C, the number of continuations considered per sentence and step.

        At most W of 2W candidates end in EOS, one for each hypothesis, so at
        least W can stay live. With a beam of 1 there is one candidate, and the
        search ends when that is EOS: exactly greedy search (ADR 0008).
        """
        return 2 * self.beam_size if self.beam_size > 1 else 1


class RowOptions(NamedTuple):
    """Settings and inputs of each sentence of a batch; `()` for none.

    A sentence's result is that of a search with its settings for the whole batch.

    Attributes:
        beam_sizes: [B] int, W of each sentence, in place of the common one; clipped to
            1 and that.
        alphas: [B] float32, in place of the common one; negative values are clipped
            to 0.
        max_lengths: [B] int, maximum number of tokens of each output, the EOS counted,
            in addition to the other limits of the search; clipped to at least 1.
        prefixes: [B, P] int32, ids that begin the output, padded with 0. At a
            sentence's limit EOS takes precedence.
        first_tokens: [B] int32, the first token of each output, which is given and has
            the probability 1: the target language of a multilingual model. For
            `search_translations`, and without its shortlist.
        terms: [B, C, P] int32, ids of terms, padded with 0: tokens that the output must
            have one after another. What does not fit the sentence's limit is left out,
            from the last term on. Not for sampling.
        seeds: [B] int64, seeds of the sentences' random numbers: for sampling only,
            which needs them and takes no beam sizes.
    """

    beam_sizes: Tensor = ()
    alphas: Tensor = ()
    max_lengths: Tensor = ()
    prefixes: Tensor = ()
    first_tokens: Tensor = ()
    seeds: Tensor = ()
    terms: Tensor = ()


def is_given(option: Tensor) -> bool:
    """Returns whether a field of `RowOptions` has values."""
    return not isinstance(option, tuple)


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
