"""How fast a network comes to its limit as layers and heads grow: fitted exponents, published rates, equal products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from attnlim.core.checks import InputError, real_number
from attnlim.core.intervals import Interval, IntervalArray, bootstrap_many, jackknife

Floats = NDArray[np.float64]
Curve = Callable[[Floats], tuple[Floats, Floats]]

# exponents are sought here; the ratio of the two terms, at the mean of the log sizes, within e^±12
LEAST = np.array([-12.0, -1.0, -1.0])
MOST = np.array([12.0, 3.0, 3.0])


@dataclass(frozen=True)
class RateFit:
    """The rate at which errors fall.

    Attributes:
        c1: factor of 1/L; NaN where this term was left out.
        c2: factor of L^-p H^-q, in the unit of the errors; where an exponent is unknown it takes in that power.
        p, q: exponents of L and H, dimensionless; NaN where all cells have one L, or one H.
        residual: root mean square of log E minus the fit, over cells.
        n_cells: number of cells.
        discretisation: whether the term c1/L was fitted.
    """

    c1: Interval
    c2: Interval
    p: Interval
    q: Interval
    residual: float
    n_cells: int
    discretisation: bool

    def at(self, n_layers: ArrayLike, n_heads: ArrayLike) -> Floats:
        """E of the fit at other sizes; an exponent that is unknown counts as 0."""
        layers, heads = np.asarray(n_layers, dtype=np.float64), np.asarray(n_heads, dtype=np.float64)
        p, q = (0.0 if math.isnan(one.estimate) else one.estimate for one in (self.p, self.q))
        c1 = self.c1.estimate if self.discretisation else 0.0
        return np.hypot(c1 / layers, self.c2.estimate * layers**-p * heads**-q)


@dataclass(frozen=True)
class PublishedRate:
    """A bound O(1/L + noise(L, H)) from the literature."""

    name: str
    source: str
    noise: Callable[[Floats, Floats], Floats]


# as "Uniform scaling limits of AdamW-trained transformers" lists them, with its own
PUBLISHED_RATES = (
    PublishedRate("L^-1 + H^-1/2", "Ding et al., for ResNets that depend smoothly on depth", lambda L, H: H**-0.5),
    PublishedRate(
        "L^-1 + (log(L+1)/H)^1/2", "Gao et al. 2024, for transformers", lambda L, H: np.sqrt(np.log(L + 1) / H)
    ),
    PublishedRate(
        "L^-1 + L^-1/3 H^-1/2",
        '"Uniform scaling limits of AdamW-trained transformers", Theorem 7',
        lambda L, H: L ** (-1 / 3) * H**-0.5,
    ),
    PublishedRate("L^-1 + (LH)^-1/2", "Chizat 2025, arXiv 2509.10167, for ResNets", lambda L, H: (L * H) ** -0.5),
)


@dataclass(frozen=True)
class RateComparison:
    """A published rate fitted to errors.

    Attributes:
        rate: which.
        c1, c2: factors of 1/L and of the noise, at least 0, in the unit of the errors.
        residual: root mean square of log E minus the fit, over cells.
        excess: ``residual`` minus the smallest of the others; an interval below 0 says that this rate fits best.
    """

    rate: PublishedRate
    c1: Interval
    c2: Interval
    residual: Interval
    excess: Interval


@dataclass(frozen=True)
class ProductSpread:
    """Cells of one product L·H side by side.

    Attributes:
        product: L·H.
        n_layers, n_heads: of the cells, L ascending.
        scaled: E √(LH) of each, in the unit of the errors.
        ratio: largest over smallest, with an interval widened for all pairs of the table.
        p_value: two-sided, of the most significant pair of the row, times the number of pairs of the table, at most 1.
        coincide: whether no pair of the row differs at the level asked for.
    """

    product: int
    n_layers: tuple[int, ...]
    n_heads: tuple[int, ...]
    scaled: tuple[float, ...]
    ratio: Interval
    p_value: float
    coincide: bool


def fit_rate(
    n_layers: ArrayLike,
    n_heads: ArrayLike,
    errors: ArrayLike,
    *,
    discretisation: bool = True,
    seed: int = 0,
    n_resamples: int = 400,
    level: float = 0.95,
) -> RateFit:
    r"""Fit how the error of a network falls with its layers and heads.

    .. math:: E^2 = (c_1/L)^2 + c_2^2 L^{-2p} H^{-2q}

    by least squares on log E over cells, c_1 ≥ 0, exponents in [-1, 3], from many starts; E² of a cell is the mean of the
    squares of its replicas. Theorem 7 bounds the error by p = 1/3, q = 1/2.

    Source: *ours*; the two terms are those of "Uniform scaling limits of AdamW-trained transformers", Theorem 7. The
    intervals are percentile bootstraps over replicas, widened for their number (16: about 94 % for 95 %), see
    :func:`attnlim.core.intervals.bootstrap_many`.

    Assumes: independent replicas. With one H the terms differ by curvature in log L alone, and not at all near p = 1:
    leave ``discretisation`` out where 1/L is known to be small.

    Args:
        n_layers, n_heads: (n_cells,), L and H, at least 1.
        errors: (n_replicas, n_cells), each replica's own error, any unit, above 0.
        discretisation: whether there is a term c_1/L.
        seed: of the bootstrap, at least 0.
        n_resamples: at least 2.
        level: coverage of the intervals, in (0, 1).

    Returns:
        :class:`RateFit`; bounds are NaN for one replica.

    Raises:
        InputError: shapes that do not fit, errors that are not above 0, fewer different cells than unknowns, cells in
            which H is a power of L.

    Cost: well below a second for 16 replicas of 40 cells.

    >>> L, H = np.array([4, 16, 64, 4, 16, 64, 4, 16]), np.array([1, 1, 1, 4, 4, 4, 16, 16])
    >>> fit = fit_rate(L, H, [np.hypot(0.5 / L, 2 / np.sqrt(L * H))] * 3)
    >>> round(fit.p.estimate, 6), round(fit.q.estimate, 6), decides(fit.p)
    (0.5, 0.5, '1/2')
    """
    layers, heads, data = _cells(n_layers, n_heads, errors)
    log_l, log_h = np.log(layers), np.log(heads)
    varies = np.array([discretisation, np.ptp(log_l) > 0, np.ptp(log_h) > 0])
    _decidable(log_l, log_h, varies)
    mean_l, mean_h = log_l.mean(), log_h.mean()
    curve = _two_terms(log_l - mean_l, log_h - mean_h)
    starts = _starts(curve, _log_error(data[None] ** 2), varies)

    def statistic(sets: Floats) -> Floats:
        target = _log_error(sets)
        z, offset, loss = _best(curve, target, starts, varies)
        s, p, q = z.T
        c1 = np.exp(offset + s + mean_l)  # 0 where s = -inf
        c2 = np.exp(offset + p * mean_l * varies[1] + q * mean_h * varies[2])
        unknown = np.where(varies, 1.0, np.nan)
        rms = np.sqrt(loss / target.shape[1])
        return np.stack([c1 * unknown[0], c2, p * unknown[1], q * unknown[2], rms], axis=1)

    found = bootstrap_many(statistic, data**2, seed, n_resamples, level, widened=True)
    c1, c2, p, q, _ = (_one(found, at) for at in range(5))
    return RateFit(c1, c2, p, q, float(found.estimate[4]), len(layers), discretisation)


def decides(exponent: Interval) -> str:
    """Which of the exponents 1/2 and 1/3 an interval holds: "1/2", "1/3", "both" or "neither".

    Without bounds (one replica) neither is excluded: "both".

    Source: *ours*; 1/3 is the exponent of L that Theorem 7 proves, 1/2 the one of independent noise.

    >>> decides(Interval(0.49, 0.45, 0.52, 0.02, 0.95, "", 16, 0)), decides(Interval(0.4, 0.3, 0.5, 0.05, 0.95, "", 4, 0))
    ('1/2', 'both')
    """
    half, third = (not (value < exponent.low or value > exponent.high) for value in (1 / 2, 1 / 3))
    return {(True, True): "both", (True, False): "1/2", (False, True): "1/3", (False, False): "neither"}[half, third]


def compare_rates(
    n_layers: ArrayLike,
    n_heads: ArrayLike,
    errors: ArrayLike,
    *,
    seed: int = 0,
    n_resamples: int = 400,
    level: float = 0.95,
) -> list[RateComparison]:
    r"""Fit four published rates to the same errors.

    .. math:: E = c_1/L + c_2\, f(L, H), \qquad c_1, c_2 \ge 0

    by least squares on log E over cells, f one of :data:`PUBLISHED_RATES`. They are upper bounds: one that fits badly is
    not refuted, it is not sharp here.

    Source: *ours*; the rates as their sources say, see :data:`PUBLISHED_RATES`.

    Assumes: independent replicas. Resampled residuals are biased upwards by the noise of the errors, ``excess`` less so.

    Args:
        n_layers, n_heads, errors, seed, n_resamples, level: as for :func:`fit_rate`; at least 3 different cells.

    Returns:
        One :class:`RateComparison` a rate, in the order of :data:`PUBLISHED_RATES`.

    Raises:
        InputError: as for :func:`fit_rate`.

    >>> L, H = np.array([4, 16, 64, 4, 16, 64]), np.array([1, 1, 1, 4, 4, 4])
    >>> rows = compare_rates(L, H, [0.1 / L + 2 / np.sqrt(L * H)] * 2)
    >>> [row.rate.name for row in rows if row.excess.high < 0], round(rows[3].c2.estimate, 6)
    (['L^-1 + (LH)^-1/2'], 2.0)
    """
    layers, heads, data = _cells(n_layers, n_heads, errors)
    if len({*zip(layers.tolist(), heads.tolist(), strict=True)}) < 3:
        raise InputError("comparing rates takes at least 3 different cells, or each rate fits; measure more sizes")
    noises = [rate.noise(layers, heads) for rate in PUBLISHED_RATES]

    def statistic(sets: Floats) -> Floats:
        target = _log_error(sets)
        fits = np.stack([_sum_fit(-np.log(layers), np.log(noise), target) for noise in noises], axis=1)
        rms = fits[:, :, 2]
        others = np.stack([np.delete(rms, at, axis=1).min(axis=1) for at in range(len(noises))], axis=1)
        return np.concatenate([fits, (rms - others)[:, :, None]], axis=2)

    found = bootstrap_many(statistic, data**2, seed, n_resamples, level, widened=True)
    return [
        RateComparison(rate, *(_one(found, (at, column)) for column in range(4)))
        for at, rate in enumerate(PUBLISHED_RATES)
    ]


def equal_product_spread(
    n_layers: ArrayLike, n_heads: ArrayLike, errors: ArrayLike, *, level: float = 0.95
) -> list[ProductSpread]:
    r"""Whether cells of equal L·H have equal errors, as (LH)^{-1/2} says and L^{-1/3} H^{-1/2} denies.

    .. math:: \ln(E_i/E_j) \pm t\, s, \qquad L_i H_i = L_j H_j

    by the delete-one jackknife over replicas, at a level that Bonferroni's correction takes from all pairs of the table
    together: if every pair coincides, all rows say so with probability at least ``level``. Under L^{-1/3} H^{-1/2} the
    ratio is (L_i/L_j)^{1/6}, larger in the deeper cell; a term 1/L makes the shallower one larger.

    Source: *ours*.

    Assumes: independent replicas; E² of a cell is the mean of their squares.

    Args:
        n_layers, n_heads, errors: as for :func:`fit_rate`, at least 2 replicas; cells of a product of its own are left out.
        level: in (0, 1).

    Returns:
        One :class:`ProductSpread` a product that at least two cells share, ascending.

    Raises:
        InputError: as for :func:`fit_rate`, one replica, no two cells of equal product.

    >>> errors = [[1.0, 1.1, 0.5], [1.2, 1.0, 0.6], [0.9, 1.0, 0.7]]
    >>> [(row.product, row.coincide) for row in equal_product_spread([4, 16, 16], [4, 1, 4], errors)]
    [(16, True)]
    """
    layers, heads, data = _cells(n_layers, n_heads, errors)
    level = real_number("level", level, above=0.0, below=1.0)
    products = (layers * heads).astype(np.int64)
    order = np.argsort(layers, kind="stable")
    groups = {int(product): order[products[order] == product] for product in np.unique(products)}
    pairs = {product: list(combinations(group.tolist(), 2)) for product, group in groups.items() if len(group) > 1}
    n_pairs = sum(map(len, pairs.values()))
    if not n_pairs or len(data) < 2:
        raise InputError(
            f"equal products take at least 2 replicas and 2 cells of equal L·H, got {len(data)} and {n_pairs} pairs"
        )
    adjusted = 1 - (1 - level) / n_pairs
    rows = []
    for product, own in pairs.items():
        found = [jackknife(_log_ratio, data[:, pair] ** 2, adjusted) for pair in own]
        widest = max(found, key=lambda one: abs(one.estimate))
        p_value = min(1.0, n_pairs * min(_p_value(one) for one in found))
        cells = groups[product]
        rows.append(
            ProductSpread(
                product,
                tuple(layers[cells].astype(int).tolist()),
                tuple(heads[cells].astype(int).tolist()),
                tuple((np.exp(_log_error(data[None][:, :, cells] ** 2)[0]) * math.sqrt(product)).tolist()),
                _ratio(widest),
                p_value,
                p_value >= 1 - level,
            )
        )
    return rows


def _two_terms(log_l: Floats, log_h: Floats) -> Curve:
    """ln E of z = (s, p, q), less its factor: e^s is the ratio of the two terms where both logs are 0."""

    def curve(z: Floats) -> tuple[Floats, Floats]:
        s, p, q = z[:, 0, None], z[:, 1, None], z[:, 2, None]
        first = 2 * (s - log_l)
        value = 0.5 * np.logaddexp(first, -2 * (p * log_l + q * log_h))
        share = np.exp(first - 2 * value)
        return value, np.stack([share, -(1 - share) * log_l, -(1 - share) * log_h], axis=2)

    return curve


def _starts(curve: Curve, target: Floats, varies: NDArray[np.bool_]) -> Floats:
    """(at most 3, 3): where resamples begin, from minima of the data themselves; (0, 3) without the term 1/L."""
    if not varies[0]:
        return np.empty((0, 3))
    powers = [0.2, 0.35, 0.5, 0.75, 1.1]
    axes = [[-3.0, -1.0, 0.0, 1.0, 3.0], powers if varies[1] else [0.0], powers if varies[2] else [0.0]]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    many = np.repeat(target, len(grid), axis=0)
    rest = many - curve(grid)[0]
    near = grid[np.argsort(rest.var(axis=1), kind="stable")[:8]]
    z, _, loss = _descend(curve, many[: len(near)], near, varies)
    z = z[np.argsort(loss, kind="stable")]
    z[:, 0] = z[:, 0].clip(-3, 3)  # a start far out on a plateau would stay there
    _, first = np.unique(z.round(3), axis=0, return_index=True)
    return z[np.sort(first)[:3]]


def _best(curve: Curve, target: Floats, starts: Floats, varies: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """z, factor's logarithm and loss of the best minimum, with s = -inf where no term 1/L fits better."""
    without = np.tile([-np.inf, 0.5, 0.5], (len(target), 1))
    z, offset, loss = _descend(curve, target, without, varies & [False, True, True])
    for start in starts:
        new = _descend(curve, target, np.tile(start, (len(target), 1)), varies)
        better = new[2] < loss * (1 - 1e-9) - 1e-20  # a tie goes to the simpler curve
        z, offset, loss = (
            np.where(better.reshape(-1, *[1] * (old.ndim - 1)), fresh, old)
            for fresh, old in zip(new, (z, offset, loss), strict=True)
        )
    return z, offset, loss


def _descend(
    curve: Curve, target: Floats, start: Floats, free: NDArray[np.bool_], n_steps: int = 200
) -> tuple[Floats, Floats, Floats]:
    """Levenberg and Marquardt's descent of Σ (target - curve(z) - offset)² for many targets side by side.

    The offset is taken out of residuals and derivatives, which is exact: it enters with derivative 1.
    """

    def at(z: Floats, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        value, jacobian = curve(z)
        rest, jacobian = target[rows] - value, jacobian[:, :, free]
        return rest - rest.mean(axis=1, keepdims=True), jacobian - jacobian.mean(axis=1, keepdims=True)

    low, high = LEAST[: start.shape[1]][free], MOST[: start.shape[1]][free]
    z, damping, going = start.copy(), np.full(len(start), 1e-2), np.arange(len(start))
    rest, jacobian = at(z, going)
    for _ in range(n_steps if free.any() else 0):
        normal = np.einsum("bci,bcj->bij", jacobian[going], jacobian[going])
        diagonal = np.einsum("bii->bi", normal)
        diagonal += damping[going, None] * (diagonal + 1e-12) + 1e-15
        gradient = np.einsum("bci,bc->bi", jacobian[going], rest[going])
        trial = z[going]
        trial[:, free] = (trial[:, free] + np.linalg.solve(normal, gradient[..., None])[..., 0]).clip(low, high)
        new_rest, new_jacobian = at(trial, going)
        better = (new_rest**2).sum(axis=1) < (rest[going] ** 2).sum(axis=1)
        small = np.abs(trial[:, free] - z[going][:, free]).max(axis=1) < 1e-9
        kept = going[better]
        z[kept], rest[kept], jacobian[kept] = trial[better], new_rest[better], new_jacobian[better]
        damping[going] = np.where(better, damping[going] / 8, damping[going] * 5).clip(1e-12, 1e12)
        going = going[~small]
        if not len(going):
            break
    value, _ = curve(z)
    return z, (target - value).mean(axis=1), (rest**2).sum(axis=1)


def _sum_fit(first: Floats, second: Floats, target: Floats) -> Floats:
    """(r, 3): c1, c2 and rms of ln E = ln(c1 e^first + c2 e^second), the best of either term alone and of both."""
    scale = first.mean() - second.mean()

    def curve(z: Floats) -> tuple[Floats, Floats]:
        value = np.logaddexp(z + first - scale, second)
        return value, np.exp(z + first - scale - value)[..., None]

    candidates = []
    for alone, (one, two) in ((first, (1.0, 0.0)), (second, (0.0, 1.0))):
        rest = target - alone
        offset = rest.mean(axis=1)
        candidates.append((np.exp(offset) * one, np.exp(offset) * two, rest.var(axis=1)))
    for start in (-3.0, 0.0, 3.0):
        z, offset, loss = _descend(curve, target, np.full((len(target), 1), start), np.array([True]))
        candidates.append((np.exp(offset + z[:, 0] - scale), np.exp(offset), loss / target.shape[1]))
    fits = np.stack([np.stack(candidate, axis=1) for candidate in candidates], axis=1)
    best: Floats = fits[np.arange(len(target)), fits[:, :, 2].argmin(axis=1)]
    best[:, 2] = np.sqrt(best[:, 2])
    return best


def _log_error(squares: Floats) -> Floats:
    """ln E of cells from squared errors (r, n_replicas, n_cells)."""
    log_e: Floats = 0.5 * np.log(squares.mean(axis=1))
    return log_e


def _log_ratio(squares: Floats) -> float:
    first, second = squares.mean(axis=0)
    return 0.5 * math.log(first / second)


def _p_value(difference: Interval) -> float:
    if difference.standard_error == 0:
        return float(difference.estimate == 0)
    return 2 * float(stats.t.sf(abs(difference.estimate) / difference.standard_error, difference.n_units - 1))


def _ratio(logarithm: Interval) -> Interval:
    """Larger over smaller; the standard error by the delta method."""
    sign = math.copysign(1.0, logarithm.estimate)
    bounds = sorted((sign * logarithm.low, sign * logarithm.high))
    estimate = math.exp(abs(logarithm.estimate))
    low, high = map(math.exp, bounds)
    error = estimate * logarithm.standard_error
    return replace(logarithm, estimate=estimate, low=low, high=high, standard_error=error)


def _one(many: IntervalArray, at: int | tuple[int, int]) -> Interval:
    estimate, low, high, error = (
        float(values[at]) for values in (many.estimate, many.low, many.high, many.standard_error)
    )
    return Interval(estimate, low, high, error, many.level, many.method, int(many.n_units[at]), many.seed)


def _cells(n_layers: ArrayLike, n_heads: ArrayLike, errors: ArrayLike) -> tuple[Floats, Floats, Floats]:
    layers, heads, data = (np.asarray(values, dtype=np.float64) for values in (n_layers, n_heads, errors))
    if data.ndim != 2 or not data.size or layers.shape != data.shape[1:] or heads.shape != data.shape[1:]:
        raise InputError(
            "errors must be (n_replicas, n_cells) with an n_layers and an n_heads for every cell, "
            f"got {data.shape}, {layers.shape} and {heads.shape}"
        )
    for name, sizes in (("n_layers", layers), ("n_heads", heads)):
        if not (np.isfinite(sizes) & (sizes >= 1) & (sizes == np.floor(sizes))).all():
            raise InputError(f"{name} must be whole numbers of at least 1, got {sizes.tolist()}")
    if not (np.isfinite(data) & (data > 0)).all():
        raise InputError("errors must be finite and above 0; leave out cells of a run that diverged or has no error")
    return layers, heads, data


def _decidable(log_l: Floats, log_h: Floats, varies: NDArray[np.bool_]) -> None:
    """Raise where the cells cannot tell the unknowns apart."""
    if not varies[1:].any():
        raise InputError("cells must differ in n_layers or n_heads, got one size; an exponent takes several")
    n_unknown, n_different = 1 + int(varies.sum()), len({*zip(log_l.tolist(), log_h.tolist(), strict=True)})
    if n_different < n_unknown:
        raise InputError(
            f"{n_unknown} unknowns take at least as many different cells, got {n_different}; measure more sizes"
        )
    if varies[1:].all() and np.linalg.matrix_rank(np.stack([np.ones_like(log_l), log_l, log_h])) < 3:
        raise InputError("n_heads must not be one power of n_layers in all cells; p and q cannot be told apart")
