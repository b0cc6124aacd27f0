"""How many layers a simplex lasts before its tokens collapse: n^c of them above the threshold."""

from __future__ import annotations

import math

from scipy.integrate import quad

from attnlim.context.simplex import above_least, excess_weight, log_odds, next_simplex
from attnlim.context.simplex_arguments import cosine_and_rest, inverse_temperature, residual_factor, squared_norm
from attnlim.core.checks import InputError, real_number, whole_number
from attnlim.core.numerics import logistic

# layers that are gone through one by one, before and after the long slow part
N_EXACT = 4096
# a layer's effect on the next one's, below which layers may be integrated instead of counted
SLOW = 1e-3


def stability_line(rho: float, gamma: float) -> float:
    r"""The power of n up to which the number of layers may grow before a simplex collapses.

    .. math:: c = \gamma(1-\rho) - 1

    A supercritical simplex stays near identity through n^{c'} layers exactly when c' < c. Below 0 a single layer
    is too many.

    Source: [*derived*](../derivations.md#many-layers): 1-ρ falls by the factor 1 - 2ρ n^{-c}/(1+a) in a layer, and as
    it falls, faster.

    Assumes: β = γ ln n in every layer; ρ > 0; α < 1, or norms that are reset. At α ≥ 1 norms grow and attention
    weighs less and less beside them, so that a supercritical simplex outlasts every power of n.

    Args:
        rho: cosine at the start, dimensionless, in (0, 1).
        gamma: β/ln n, dimensionless, at least 0.

    Returns:
        Dimensionless.

    Raises:
        InputError: an argument outside its range.

    >>> stability_line(0.5, 3.0)
    0.5
    """
    rho = real_number("rho", rho, above=0.0, below=1.0)
    return real_number("gamma", gamma, above=0.0, closed=True) * (1 - rho) - 1


def layers_to_collapse(
    n_tokens: int,
    rho: float | None = None,
    gamma: float | None = None,
    beta: float | None = None,
    tolerance: float = 0.5,
    q: float = 1.0,
    alpha: float = 0.0,
    normalise: bool = False,
    one_minus_rho: float | None = None,
) -> float:
    r"""The number of equal layers after which 1-ρ has fallen by the fraction ``tolerance``.

    Layers are iterated where they are few. Where a layer changes u = ln(1-ρ) by a small -g(u), their number is

    .. math:: \int_{u_1}^{u_0} \frac{du}{g(u)} + \tfrac12 \ln\frac{g(u_1)}{g(u_0)}

    up to about g, a small part of one layer. At large n above γ_c it is about
    n^c (1+a)/(2βρ(1-ρ)), with c from :func:`stability_line`, whatever the tolerance.

    Source: [*derived*](../derivations.md#many-layers) from :func:`attnlim.context.simplex_step`; the formula is Abel's
    equation to second order.

    Assumes: a simplex, the same β and α in every layer, α < 1 or ``normalise``; q then follows 1-ρ without delay.

    Args:
        n_tokens: tokens, at least 2; a Python int may exceed the float range.
        rho: cosine at the start, dimensionless, in (-1/(n-1), 1); give exactly one of ``rho`` and ``one_minus_rho``.
        gamma: β/ln n, dimensionless, at least 0; give exactly one of ``gamma`` and ``beta``.
        beta: inverse temperature, dimensionless, at least 0.
        tolerance: fraction of 1-ρ that is lost, dimensionless, in (0, 1).
        q: squared norm at the start, dimensionless, above 0.
        alpha: residual factor, dimensionless, at least 0.
        normalise: whether every layer's output is brought back to the squared norm ``q``.
        one_minus_rho: 1-ρ at the start, dimensionless, in (0, n/(n-1)).

    Returns:
        Layers, at least 1: a whole number where they were iterated; ``inf`` beyond the float range.

    Raises:
        InputError: an argument outside its range, not exactly one of a pair, or α ≥ 1 without ``normalise``.

    Cost: a few milliseconds; more in proportion to 1/(1-α).

    Precision: a relative error of 1e-6 where layers are integrated, or (β + ln n) eps, the rounding in p.

    >>> layers_to_collapse(10**6, 0.5, gamma=2.0)    # a critical layer raises ρ, the second collapses
    1.0
    >>> 1e99 < layers_to_collapse(10**300, 0.5, gamma=2.7) < 1e105    # c = 0.35
    True
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    rho, apart = cosine_and_rest(n_tokens, rho, one_minus_rho)
    apart = real_number("one_minus_rho", apart, above=0.0, advice="these tokens have collapsed already")
    beta = inverse_temperature(n_tokens, gamma, beta)
    tolerance = real_number("tolerance", tolerance, above=0.0, below=1.0)
    q, alpha = squared_norm(q), residual_factor(alpha)
    if alpha >= 1 and not normalise:
        raise InputError(
            f"alpha must be below 1 where norms are not reset, got {alpha}; there norms grow and a simplex may never "
            "collapse: set normalise, or follow it with simplex_cascade"
        )
    walk = _Walk(n_tokens, beta, alpha, q if normalise else None)
    end = math.log(apart) + math.log1p(-tolerance)

    # exact layers first: q settles at the rate α, up to rounding after 40/(1-α) layers
    settled = max(N_EXACT, math.ceil(40 / (1 - alpha)) if not normalise and alpha > 0 else 0)
    passed, rho, apart, q = walk.steps(rho, apart, q, end, settled)
    if apart <= math.exp(end):
        return float(passed)
    slow, start = 0.0, math.log(apart)
    if walk.slowness(start) <= SLOW:
        turn = walk.end_of_slow(start, end)
        slow = walk.integral(turn, start)
        apart = math.exp(turn)
        q = walk.settled_q(apart)
    rest = walk.steps(1 - apart, apart, q, end, None)[0]
    return passed + slow + rest


class _Walk:
    """Layers of one β and α as a walk of u = ln(1-ρ); ``q`` is the norm that is reset to, or None."""

    def __init__(self, n_tokens: int, beta: float, alpha: float, q: float | None) -> None:
        self.n_tokens, self.beta, self.alpha, self.q = n_tokens, beta, alpha, q

    def steps(
        self, rho: float, apart: float, q: float, end: float, most: int | None
    ) -> tuple[int, float, float, float]:
        """Layers one by one until u ≤ ``end`` or ``most`` of them, and where they lead."""
        passed, floor = 0, math.exp(end)
        while apart > floor and passed != most:
            step = next_simplex(self.n_tokens, rho, apart, self.beta, self.alpha * math.sqrt(q))
            rho, apart = step.rho, step.one_minus_rho
            q = step.q if self.q is None else self.q
            passed += 1
        return passed, rho, apart, q

    def fall(self, u: float) -> float:
        """g(u) = ln(1-ρ) - ln(1-ρ') of a layer whose norms have settled."""
        apart = math.exp(u)
        residual = self.alpha * math.sqrt(self.settled_q(apart))
        excess, b_s, n_b = self._weights(apart)
        c = excess + residual
        # a weight below 1e-150 leaves nothing of 1-ρ
        return math.log1p(b_s * (2 * c + n_b) / (c * c)) if c * c > 0 else math.inf

    def settled_q(self, apart: float) -> float:
        """q = q', the root of q = α²q + 2α√q X + Y."""
        if self.q is not None:
            return self.q
        excess, b_s, n_b = self._weights(apart)
        linear, constant = excess + b_s, excess * excess + b_s * (2 * excess + n_b)
        rest = 1 - self.alpha * self.alpha
        half = self.alpha * linear
        return ((half + math.sqrt(half * half + rest * constant)) / rest) ** 2

    def _weights(self, apart: float) -> tuple[float, float, float]:
        """p - b, bS and nb as in :func:`next_simplex`."""
        odds = log_odds(self.n_tokens, apart, self.beta)
        others = logistic(-odds)
        b_s = others * above_least(self.n_tokens, 1 - apart)
        return excess_weight(logistic(odds), apart, self.beta), b_s, others * (self.n_tokens / (self.n_tokens - 1))

    def slowness(self, u: float) -> float:
        """g and the relative change of g in a layer, together g·(1 + β(1-ρ)), against the layers that q remembers."""
        memory = 1 - self.alpha if self.q is None else 1.0
        return self.fall(u) * (1 + self.beta * math.exp(u)) / memory

    def end_of_slow(self, start: float, end: float) -> float:
        """The last u ≥ ``end`` down to which layers change little, by bisection."""
        if self.slowness(end) <= SLOW:
            return end
        high, low = start, end
        for _ in range(60):
            middle = (high + low) / 2
            high, low = (middle, low) if self.slowness(middle) <= SLOW else (high, middle)
        return high

    def integral(self, low: float, high: float) -> float:
        """The number of layers from ``high`` to ``low``."""
        first = self.fall(high)
        if first == 0 or low == high:
            return math.inf if first == 0 else 0.0
        # most layers are spent where g is smallest, within 1/(β(1-ρ)) of the start
        near = max(low, high - 40 / (1 + self.beta * math.exp(low)))
        pieces = [(low, near), (near, high)] if near > low else [(low, high)]
        scaled = sum(quad(lambda u: first / self.fall(u), *piece, epsabs=0, epsrel=1e-9)[0] for piece in pieces)
        count = scaled / first if scaled < first * 1e308 else math.inf
        return count + 0.5 * math.log(self.fall(low) / first)
