"""How far one step of Adam can go, and the compact set that decoupled weight decay keeps the parameters in."""

from __future__ import annotations

import math
from typing import Any

from attnlim.core.checks import InputError, real_number, whole_number


def adam_bound_limit(beta_1: float, beta_2: float) -> float:
    r"""The largest |m̂|/√v̂ that any sequence of gradients can bring about.

    .. math:: C_\infty = \frac{1-\beta_1}{\sqrt{1-\beta_2}\, \sqrt{1 - \beta_1^2/\beta_2}}

    The supremum over steps of :func:`adam_bound_at`, which grows to it.

    Source: "Uniform scaling limits of AdamW-trained transformers", Lemma 43; the form is *derived* by Cauchy-Schwarz.

    Args:
        beta_1, beta_2: decay rates of the two moments, dimensionless, in [0, 1), with β_1² < β_2.

    Raises:
        InputError: a rate outside [0, 1), or β_1² ≥ β_2, where no bound holds.

    >>> round(adam_bound_limit(0.9, 0.999), 4), round(adam_bound_limit(0.9, 0.95), 4)
    (7.2703, 1.165)
    """
    beta_1, beta_2 = decay_rates((beta_1, beta_2))
    return (1 - beta_1) / math.sqrt(1 - beta_2) / math.sqrt(1 - beta_1**2 / beta_2)


def adam_bound_at(step: int, beta_1: float, beta_2: float) -> float:
    r"""The largest |m̂|/√v̂ that any t gradients can bring about.

    .. math::
        C_t = \frac{1-\beta_1}{1-\beta_1^t} \sqrt{\frac{1-\beta_2^t}{1-\beta_2}} \sqrt{\frac{1-r^t}{1-r}},
        \qquad r = \beta_1^2/\beta_2

    Attained by gradients in proportion to (β_1/β_2)^{t-s}, s = 1..t.

    Source: as for :func:`adam_bound_limit`.

    Args:
        step: t, at least 1.
        beta_1, beta_2: as there.

    Raises:
        InputError: as there, or a step below 1.

    >>> adam_bound_at(1, 0.9, 0.999), adam_bound_at(10**6, 0.9, 0.999) == adam_bound_limit(0.9, 0.999)
    (1.0, True)
    """
    step = whole_number("step", step, 1)
    beta_1, beta_2 = decay_rates((beta_1, beta_2))
    ratio = beta_1**2 / beta_2
    return (
        (1 - beta_1)
        / (1 - beta_1**step)
        * math.sqrt((1 - beta_2**step) / (1 - beta_2))
        * math.sqrt((1 - ratio**step) / (1 - ratio))
    )


def parameter_bound(largest_start: float, beta_1: float, beta_2: float, lr: float, weight_decay: float) -> float:
    r"""A bound on every parameter at every step: the compact set of the theory.

    .. math:: |\theta_\tau| \le \max(|\theta_0|,\; C_\infty/\lambda) \qquad \text{for } 0 < \eta\lambda \le 1

    For entries of AdamW, for Frobenius norms of blocks of blockwise AdamW with the sum of squares.

    Source: "Uniform scaling limits of AdamW-trained transformers", Lemma 26.

    Args:
        largest_start: the largest |θ_0|, at least 0.
        beta_1, beta_2: as for :func:`adam_bound_limit`.
        lr: learning rate η, above 0.
        weight_decay: λ, above 0, ηλ ≤ 1.

    Returns:
        The bound, in the unit of the parameters; infinite without weight decay.

    Raises:
        InputError: as for :func:`adam_bound_limit`, a negative number, or ηλ > 1.

    >>> round(parameter_bound(1.0, 0.9, 0.999, lr=0.1, weight_decay=0.1), 3)
    72.703
    """
    largest_start = real_number("largest_start", largest_start, above=0.0, closed=True)
    lr, weight_decay = step_and_decay(lr, weight_decay)
    limit = adam_bound_limit(beta_1, beta_2)
    return max(largest_start, limit / weight_decay) if weight_decay else math.inf


def decay_rates(betas: Any) -> tuple[float, float]:
    """(β_1, β_2) if Adam's step is bounded under them.

    Raises:
        InputError: a rate outside [0, 1), or β_1² ≥ β_2.
    """
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise InputError(f"betas must be two numbers, got {betas!r}; (0.9, 0.999) is usual")
    beta_1, beta_2 = (real_number("betas", value, above=0.0, closed=True) for value in betas)
    if not (beta_1 < 1 and beta_2 < 1 and beta_1**2 < beta_2):
        raise InputError(
            f"betas must be below 1 with the first one's square below the second, got {beta_1} and {beta_2}; "
            "else no step of Adam is bounded"
        )
    return beta_1, beta_2


def step_and_decay(lr: Any, weight_decay: Any) -> tuple[float, float]:
    """Learning rate and weight decay if their product is at most 1.

    Raises:
        InputError: a negative number, or a product above 1, with which decay overshoots.
    """
    lr = real_number("lr", lr, above=0.0, closed=True)
    weight_decay = real_number("weight_decay", weight_decay, above=0.0, closed=True)
    if lr * weight_decay > 1:
        raise InputError(f"lr times weight_decay must be at most 1, got {lr * weight_decay:.6g}; lower one of them")
    return lr, weight_decay
