"""Attention rows of independent scores, exact on average at finite n: quadrature in place of the limit n → ∞."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from attnlim.core.checks import InputError, real_number, whole_number

Floats = NDArray[np.float64]

# e^{-45} of what is summed is left out at each end; e^{-v} in x has the error e^{-π²/STEP} = 1e-17
REACH = 45.0
STEP = 0.25
MOST_NODES = 10**6


@dataclass(frozen=True)
class IndependentRow:
    """Means over rows: ln Z, H (nats) and ΣA²; ln(mean of Z); and the quadrature's own error, of ΣA = 1."""

    log_partition: float
    entropy: float
    concentration: float
    annealed_log_partition: float
    error: float


def independent_row(n_tokens: int, beta: float, sigma: float | None = None, width: int | None = None) -> IndependentRow:
    r"""The mean of ln Z, of the entropy and of ΣA² over rows of n independent scores, exactly.

    With v = e^{βs-x}, φ(x) = E e^{-v} and 1/Z = ∫ e^{-tZ} dt at t = e^{-x}:

    .. math::
        E \ln Z + \gamma_E = \int x\, d\phi^n, \qquad
        E \sum_j A_j^2 = \int n\, E[v^2 e^{-v}]\, \phi^{n-1} dx, \qquad
        E \sum_j A_j s_j = \int n\, E[s v e^{-v}]\, \phi^{n-1} dx

    and H = ln Z - βΣ A s. φ^n is the distribution function of ln Z plus a Gumbel variable, whose mean is γ_E.

    Source: [*derived*](../derivations.md#finite-rows); the integrals are those of the random energy model (Derrida
    1981) before its limit.

    Assumes: independent scores: normal ones, or cosines of a fixed query with uniform keys.

    Args:
        n_tokens: keys, at least 2, at most 10^300.
        beta: inverse temperature, dimensionless, at least 0.
        sigma: standard deviation of normal scores, dimensionless, above 0; give exactly one of ``sigma`` and ``width``.
        width: dimension d of uniform keys, at least 2.

    Returns:
        An :class:`IndependentRow`.

    Raises:
        InputError: an argument outside its range, not exactly one of a pair, or β so large that the rule would need
            over 10^6 nodes.

    Cost: O(β²) nodes of a trapezoidal rule: milliseconds at β = 10 on scores of order 1, a second at β = 100.

    Precision: relative error about 1e-10; ``error`` is the rule's own.

    >>> row = independent_row(1024, 2.0, sigma=1.0)
    >>> round(row.log_partition, 4), round(row.entropy, 4), round(row.concentration, 4), row.error < 1e-9
    (8.9124, 5.0266, 0.0285, True)
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    log_n = math.log(n_tokens)
    real_number("ln n_tokens", log_n, below=695.0, advice="at most 10^300 keys")
    beta = real_number("beta", beta, above=0.0, closed=True)
    if (sigma is None) == (width is None):
        raise InputError(f"give exactly one of sigma and width, got sigma={sigma!r} and width={width!r}")
    if width is not None:
        scores, log_weights = _sphere_nodes(log_n, beta, width)
        annealed = log_n + float(np.logaddexp.reduce(log_weights + beta * scores))
    else:
        beta *= real_number("sigma", sigma, above=0.0, advice="sigma is the standard deviation of the scores")
        scores, log_weights = _normal_nodes(log_n, beta)
        annealed = log_n + beta * beta / 2
    return _Row(n_tokens, beta, scores, log_weights).means(annealed)


def half_participation_beta(n_tokens: int, sigma: float | None = None, width: int | None = None) -> float:
    r"""The β at which the mean of ΣA² over rows of n independent scores is 1/2, exactly.

    For normal scores it tends to 2β_c = 2√(2 ln n)/σ as n → ∞, from below and slowly, as ln ln n/ln n: it is
    another quantity than β_c.

    Source: the quantity after arXiv 2605.12697; its value at finite n [*derived*](../derivations.md#finite-rows), by
    :func:`independent_row`.

    Args:
        n_tokens: keys, at least 3, at most 10^300.
        sigma: standard deviation of normal scores, dimensionless, above 0; give exactly one of ``sigma`` and ``width``.
        width: dimension d of uniform keys, at least 2.

    Returns:
        Dimensionless, above 0.

    Raises:
        InputError: as :func:`independent_row`.

    Precision: 1e-9 relative.

    >>> round(half_participation_beta(8192, sigma=1.0), 2)    # 2β_c is 8.49
    7.41
    """
    n_tokens = whole_number("n_tokens", n_tokens, 3, advice="the squares of two weights sum to at least 1/2")

    def excess(beta: float) -> float:
        return independent_row(n_tokens, beta, sigma, width).concentration - 0.5

    low, high = 0.0, 1.0 if sigma is None else 1 / real_number("sigma", sigma, above=0.0)
    while excess(high) < 0:
        low, high = high, 2 * high
    return float(brentq(excess, low, high, xtol=1e-10 * high))


def _normal_nodes(log_n: float, beta: float) -> tuple[Floats, Floats]:
    """Scores and log weights of a trapezoidal rule for N(0, 1), out to where n times the tail is e^{-45}."""
    # e^{-v} is bounded for |Im βs| < π/2: a step h has the error e^{-π²/(βh)}, and e^{-2π²/h²} for the density
    step = min(0.4, 0.3 / max(beta, 1e-9))
    scores = _nodes(math.sqrt(2 * REACH), math.sqrt(2 * (log_n + REACH)), step)
    return scores, -scores * scores / 2 + math.log(step / math.sqrt(2 * math.pi))


def _sphere_nodes(log_n: float, beta: float, width: int) -> tuple[Floats, Floats]:
    """The same for cosines s = tanh u, whose density (1-s²)^{(d-3)/2} ds becomes sech^{d-1} u du."""
    width = whole_number("width", width, 2, advice="on a line there are only two directions")
    rate = width - 1
    step = min(0.2, 0.4 / math.sqrt(rate), 0.3 / max(beta, 1e-9))
    u = _nodes(_reach(REACH / rate), _reach((log_n + REACH) / rate), step)
    # ln cosh u = |u| + ln(1 + e^{-2|u|}) - ln 2
    log_weights = -rate * (np.abs(u) + np.log1p(np.exp(-2 * np.abs(u))) - math.log(2))
    return np.tanh(u), log_weights - np.logaddexp.reduce(log_weights)


def _reach(log_cosh: float) -> float:
    """The u > 0 with ln cosh u = ``log_cosh``."""
    if log_cosh > 40:
        return log_cosh + math.log(2)
    excess = math.expm1(log_cosh)
    return math.log1p(excess + math.sqrt(excess * (excess + 2)))


def _nodes(below: float, above: float, step: float) -> Floats:
    """Points from -``below``, where too few scores lie to matter at any n, to ``above``."""
    if below + above > MOST_NODES * step:
        raise InputError(
            f"beta must need at most {MOST_NODES} nodes, got {(below + above) / step:.3g}; take a smaller beta"
        )
    return step * np.arange(-math.ceil(below / step), math.ceil(above / step) + 1, dtype=np.float64)


class _Row:
    """The integrands at points x, for scores of unit scale at β."""

    def __init__(self, n_tokens: int, beta: float, scores: Floats, log_weights: Floats) -> None:
        self.n, self.log_n, self.beta = float(n_tokens), math.log(n_tokens), beta
        self.scores, self.log_weights = scores, log_weights
        self.log_counts = log_weights + self.log_n

    def parts(self, x: float) -> tuple[float, float, float, float]:
        """ln φ and n times the means of v e^{-v}, s v e^{-v} and v² e^{-v}."""
        exponent = self.beta * self.scores - x
        v = np.exp(np.minimum(exponent, 700.0))
        # n(1-φ) with the weights' digits where n is large, φ itself where it is small
        missing = float(np.exp(self.log_counts) @ -np.expm1(-v))
        if missing < self.n / 2:
            log_phi = math.log1p(-missing / self.n)
        else:
            log_phi = math.log(max(float(np.exp(self.log_weights) @ np.exp(-v)), 1e-300))
        first = np.exp(self.log_counts + exponent - v)
        return log_phi, float(first.sum()), float(first @ self.scores), float(first @ v)

    def means(self, annealed: float) -> IndependentRow:
        """All means by the trapezoidal rule in x, whose ends lie where φ^n is 0 and 1."""
        middle = self._middle()
        low = self._out(middle, -1.0, lambda log_power: log_power < -REACH)
        high = self._out(middle, 1.0, lambda log_power: log_power > -math.exp(-REACH))
        x = STEP * np.arange(math.floor(low / STEP), math.ceil(high / STEP) + 1)
        log_phi, one, score, square = np.array([self.parts(float(point)) for point in x]).T
        below = np.exp((self.n - 1) * log_phi)
        power = below * np.exp(log_phi)
        total, mean_score, concentration = (float(STEP * (part @ below)) for part in (one, score, square))
        log_partition = float(x[-1] - STEP * (power.sum() - power[-1] / 2)) - np.euler_gamma
        return IndependentRow(
            log_partition=log_partition,
            entropy=log_partition - self.beta * mean_score,
            concentration=concentration,
            annealed_log_partition=annealed,
            error=abs(total - 1),
        )

    def _log_power(self, x: float) -> float:
        return self.n * self.parts(x)[0]

    def _middle(self) -> float:
        """The median of φ^n, roughly."""
        low, high, span = self.log_n, self.log_n, 1.0
        while self._log_power(low) > -math.log(2):
            low, span = low - span, 2 * span
        span = 1.0
        while self._log_power(high) < -math.log(2):
            high, span = high + span, 2 * span
        while high - low > 1:
            middle = (low + high) / 2
            low, high = (middle, high) if self._log_power(middle) < -math.log(2) else (low, middle)
        return high

    def _out(self, x: float, direction: float, done: Callable[[float], bool]) -> float:
        """A point on that side of ``x`` where φ^n has reached its end."""
        stride = 1.0
        while not done(self._log_power(x)):
            x, stride = x + direction * stride, 1.2 * stride
        return x
