"""Four laws of β_n side by side: constant, √ln n, ln n and (ln n)², each exact on a simplex at every n."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlim.context.simplex import log_odds, simplex_step
from attnlim.context.simplex_arguments import cosine_and_rest
from attnlim.context.simplex_energy import simplex_jacobian
from attnlim.context.simplex_rows import simplex_focus
from attnlim.core.checks import InputError, one_of, real_number, whole_number

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """The power of ln n that β follows, and who uses it according to the source."""

    power: float
    used_by: tuple[str, ...]


# "Critical attention scaling", table of methods; √ln n is the law of independent scores, see random_energy
LAWS = {
    "constant": Law(0.0, ("plain softmax",)),
    "sqrt-log": Law(0.5, ()),
    "log": Law(1.0, ("Qwen", "SSMax", "SWAN-GPT")),
    "log-squared": Law(2.0, ("YaRN",)),
}


@dataclass(frozen=True)
class LawRows:
    """A law over n: every array has one entry an n, with β, γ = β/ln n, t and what one layer then does."""

    law: str
    scale: float
    n_tokens: tuple[int, ...]
    log_n: Floats
    beta: Floats
    gamma: Floats
    window_coordinate: Floats
    self_weight: Floats
    rho: Floats
    one_minus_rho: Floats
    eta: Floats
    entropy: Floats
    perplexity: Floats


def beta_law(name: str, n_tokens: int, scale: float = 1.0) -> float:
    r"""β of a law at n.

    .. math:: \beta_n = s\,(\ln n)^k, \qquad k = 0, \tfrac12, 1, 2

    Source: "Critical attention scaling", table of methods: k = 2 for YaRN, 1 for Qwen, SSMax and SWAN-GPT. These
    are the orders only: what a method does at its own constants is read from its configuration.

    Args:
        name: "constant", "sqrt-log", "log" or "log-squared".
        n_tokens: tokens, at least 2.
        scale: s, dimensionless, at least 0; for "log" it is γ.

    Returns:
        Dimensionless.

    Raises:
        InputError: an unknown law, or an argument outside its range.

    >>> beta_law("log", 1000, 2.0) == 2 * math.log(1000), beta_law("constant", 1000, 2.0)
    (True, 2.0)
    """
    power = LAWS[one_of("law", name, LAWS)].power
    log_n = math.log(whole_number("n_tokens", n_tokens, 2))
    return float(real_number("scale", scale, above=0.0, closed=True) * log_n**power)


def scale_through(name: str, n_tokens: int, beta: float) -> float:
    """The scale at which a law has a given β at one n: so that laws can be compared from a common point.

    Source: *ours*.

    Args:
        name: "constant", "sqrt-log", "log" or "log-squared".
        n_tokens: tokens, at least 2.
        beta: β there, dimensionless, at least 0.

    Returns:
        Dimensionless.

    Raises:
        InputError: an unknown law, or an argument outside its range.

    >>> scale_through("log", 1000, 3 * math.log(1000))
    3.0
    """
    beta = real_number("beta", beta, above=0.0, closed=True)
    return beta / beta_law(name, n_tokens)


def log_n_at_threshold(name: str, rho: float, scale: float) -> float:
    r"""ln n at which a law crosses the threshold β(1-ρ) = ln n of a simplex.

    .. math:: (\ln n)^{1-k} = s(1-\rho)

    Slower laws than ln n are supercritical below it and subcritical above: they are diluted in the end. (ln n)² is
    the other way round: it freezes in the end. The law ln n has no crossing, it stays on its side.

    Source: [*derived*](../derivations.md#laws) from "Critical attention scaling", Theorem 2.1.

    Args:
        name: "constant", "sqrt-log", "log" or "log-squared".
        rho: common cosine, dimensionless, in (-1, 1).
        scale: s, dimensionless, at least 0.

    Returns:
        Nats; NaN for "log", ``inf`` for "log-squared" at scale 0.

    Raises:
        InputError: an unknown law, or an argument outside its range.

    >>> log_n_at_threshold("constant", 0.5, 20.0), log_n_at_threshold("log-squared", 0.5, 0.2)
    (10.0, 10.0)
    """
    power = LAWS[one_of("law", name, LAWS)].power
    reach = real_number("scale", scale, above=0.0, closed=True) * (1 - real_number("rho", rho, above=-1.0, below=1.0))
    if power == 1:
        return math.nan
    if reach == 0:
        return 0.0 if power < 1 else math.inf
    return float(reach ** (1 / (1 - power)))


def law_rows(
    name: str,
    n_tokens: Iterable[int],
    rho: float,
    scale: float = 1.0,
    q: float = 1.0,
    alpha: float = 0.0,
    width: int | None = None,
) -> LawRows:
    r"""What one layer does to a simplex under a law of β_n, over n.

    .. math::
        \beta_n = s (\ln n)^k, \quad \gamma(n) = \beta_n/\ln n, \quad t(n) = (1-\rho)\beta_n - \ln(n-1)

    with t the log-odds of the self weight; then ρ', η, H and e^H, all exact at every n.

    Source: [*derived*](../derivations.md#one-layer-on-a-simplex); :func:`attnlim.context.simplex_step`,
    ``simplex_jacobian`` and ``simplex_focus`` in one table.

    Assumes: a simplex, as there; at every n one with the same ρ.

    Args:
        name: "constant", "sqrt-log", "log" or "log-squared".
        n_tokens: numbers of tokens, at least one, each at least 2; Python ints up to 10^300.
        rho: common cosine, dimensionless, in (-1/(n-1), 1).
        scale: s, dimensionless, at least 0.
        q: squared norm, dimensionless, above 0.
        alpha: residual factor, dimensionless, at least 0.
        width: dimension d of the tokens, at least 1; None is d = n.

    Returns:
        :class:`LawRows`; entropy in nats, perplexity in tokens, ``inf`` beyond the float range.

    Raises:
        InputError: an unknown law, no n, or an argument outside its range.

    Cost: O(1) for each n.

    >>> rows = law_rows("constant", [10**2, 10**6], 0.5, scale=20.0)
    >>> rows.self_weight.round(3).tolist()    # it crosses the threshold at n = e^10
    [0.996, 0.022]
    """
    sizes = [whole_number("n_tokens", n, 2) for n in n_tokens]
    if not sizes:
        raise InputError("n_tokens must hold at least one number of tokens, got none")
    betas = [beta_law(name, n, scale) for n in sizes]
    log_n = np.array([math.log(n) for n in sizes])
    steps = [simplex_step(n, rho, beta=beta, q=q, alpha=alpha) for n, beta in zip(sizes, betas, strict=True)]
    focuses = [simplex_focus(n, rho, beta=beta) for n, beta in zip(sizes, betas, strict=True)]
    energies = [
        simplex_jacobian(n, n if width is None else width, rho, beta=beta, q=q, alpha=alpha)
        for n, beta in zip(sizes, betas, strict=True)
    ]
    odds = [log_odds(n, cosine_and_rest(n, rho, None)[1], beta) for n, beta in zip(sizes, betas, strict=True)]
    return LawRows(
        law=name,
        scale=float(scale),
        n_tokens=tuple(sizes),
        log_n=log_n,
        beta=np.array(betas),
        gamma=np.array(betas) / log_n,
        window_coordinate=np.array(odds),
        self_weight=np.array([step.self_weight for step in steps]),
        rho=np.array([step.rho for step in steps]),
        one_minus_rho=np.array([step.one_minus_rho for step in steps]),
        eta=np.array([energy.total for energy in energies]),
        entropy=np.array([focus.entropy for focus in focuses]),
        perplexity=np.array([focus.perplexity for focus in focuses]),
    )
