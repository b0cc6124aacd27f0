"""Claims about the simplex: closed forms at finite n, followed to their limits along the derived rates."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from attnlim.context.jacobian_limits import jacobian_limit
from attnlim.context.scaling_laws import LAWS
from attnlim.context.simplex import simplex_step
from attnlim.context.simplex_energy import simplex_jacobian
from attnlim.context.simplex_limits import (
    critical_gamma,
    log_partition,
    log_partition_limit,
    simplex_limit,
    window_width,
)
from attnlim.context.stability import layers_to_collapse, stability_line
from attnlim.core.numerics import logistic
from attnlim.lab.critical_curves import RHO, WINDOW_T, law, self_weight_at
from attnlim.lab.critical_verdicts import REAL_N, extrapolated, in_the_end, limit_verdict
from attnlim.lab.verdicts import CLOSE, Claim, exact, near
from attnlim.report.phase_reading import crossing

# a phase in the middle of its range, as a multiple of γ_c
PHASES = {"subcritical": 0.5, "critical": 1.0, "supercritical": 1.5}
PLACES = {"subcritical": "below γ_c", "critical": "at γ_c", "supercritical": "above γ_c"}
RESIDUAL = {"rho": 0.3, "q": 2.0, "alpha": 0.7}
LAYERS_GAMMA = 3.0
HUGE_N = 10**300
# the power that is taken at one n is off by the logarithm of what the law leaves out, of order n^-c
LIMIT_OF_LAYERS = 1e-4


def simplex_claims(dataset: xr.Dataset) -> list[Claim]:
    """The rows on Theorems 2.1, 2.4 and 2.5, on the denominator, the window, many layers and the laws of β."""
    return [
        *(contraction_claim(phase) for phase in PHASES),
        *(contraction_claim(phase, **RESIDUAL) for phase in PHASES),
        *(gradient_claim(phase) for phase in PHASES),
        normalisation_claim(),
        partition_claim(),
        collapse_claim(),
        sharp_claim(),
        layers_claim(dataset),
        laws_claim(),
    ]


def contraction_claim(
    phase: str, rho: float = RHO, q: float = 1.0, alpha: float = 0.0, claimed: float | None = None
) -> Claim:
    """Theorem 2.1 in one phase: the cosine after a layer; ``claimed`` in place of the theorem's limit is for tests."""
    limit = simplex_limit(rho, phase=phase, q=q, alpha=alpha)
    predicted = limit.rho if claimed is None else claimed
    rate = _rate(phase, alpha)
    gamma = PHASES[phase] * critical_gamma(rho)
    # 1-ρ' keeps the digits that ρ' loses near 1
    found = extrapolated(
        lambda n: simplex_step(n, rho, gamma, q=q, alpha=alpha).one_minus_rho, 1 - predicted, rate
    )  # fmt: skip
    measured = exact(1 - found.limit.value, found.limit.high - found.limit.value)
    about = "α = 0" if alpha == 0 else f"α = {alpha:g}, q = {q:g}"
    name = (
        {"subcritical": "1", "critical": "4ρ/(1+3ρ)", "supercritical": "ρ"}[phase] if alpha == 0 else f"{limit.rho:.3f}"
    )
    start = "residual" if alpha else "cosine"
    return Claim(
        f"{start}-{phase}", f"ρ′ → {name} {PLACES[phase]} ({about})",
        "Theorem 2.1" if alpha == 0 else "Theorem 2.1, α > 0 derived", predicted, measured,
        limit_verdict(1 - predicted, found, rate),
        f"simplex, ρ = {rho:g}, γ = {PHASES[phase]:g} γ_c: {_approach(found.exponent, rate)}; off by "
        f"{_small(abs(found.here - 1 + predicted))} at n = 10^6" + _in_sight(phase, rho, q, alpha, 1 - predicted),
    )  # fmt: skip


def gradient_claim(phase: str, claimed: float | None = None) -> Claim:
    """Theorem 2.4 in one phase: the Jacobian energy on a simplex with d = n; ``claimed`` as above."""
    predicted = jacobian_limit(RHO, HUGE_N, phase=phase) if claimed is None else claimed
    gamma = PHASES[phase] * critical_gamma(RHO)
    rate, log_power = _rate(phase, 0.0), 2 if phase == "critical" else 0
    found = extrapolated(lambda n: simplex_jacobian(n, n, RHO, gamma).total, predicted, rate, log_power)
    name = {"subcritical": "0", "critical": "(1 − 1/d)/4q", "supercritical": "(1 − 1/d)/q"}[phase]
    return Claim(
        f"eta-{phase}", f"η → {name} {PLACES[phase]} (α = 0)", "Theorem 2.4", predicted, found.limit,
        limit_verdict(predicted, found, rate),
        f"simplex, d = n, q = 1, ρ = {RHO:g}, γ = {PHASES[phase]:g} γ_c: {_approach(found.exponent, rate, log_power)}; "
        f"off by {_small(abs(found.here - predicted))} at n = 10^6",
    )  # fmt: skip


def normalisation_claim(claimed: float = 0.0) -> Claim:
    """Theorem 2.5 on a simplex: the distance of the Jacobian from that of the normalisation."""
    gamma = PHASES["supercritical"] * critical_gamma(RHO)
    rate = 2 * stability_line(RHO, gamma)
    found = extrapolated(lambda n: simplex_jacobian(n, n, RHO, gamma).distance, claimed, rate)
    return Claim(
        "normalisation-simplex", "the Jacobian tends to that of x → x/|x| above γ_c", "Theorem 2.5", claimed, found.limit,
        limit_verdict(claimed, found, rate),
        f"|J − J_norm|²/(nd) on a simplex, d = n, ρ = {RHO:g}, γ = 1.5 γ_c: {_approach(found.exponent, rate)}",
    )  # fmt: skip


def partition_claim(claimed: float | None = None) -> Claim:
    """The kink of ln Z/ln n, where it is farthest from its limit."""
    gamma = critical_gamma(RHO)
    predicted = log_partition_limit(RHO, gamma) if claimed is None else claimed
    sizes = (10**100, 10**200, HUGE_N)
    found = extrapolated(lambda n: log_partition(n, RHO, gamma) / math.log(n), predicted, 0.0, -1, sizes)
    return Claim(
        "partition", "ln Z/ln n → max(γ, 1 + ργ)", "before Theorem 2.1", predicted, found.limit,
        limit_verdict(predicted, found, 0.0),
        f"at γ_c, ρ = {RHO:g}: what is missing falls only as ln 2/ln n, {_small(abs(found.here - predicted))} at "
        "n = 10^6: no kink is seen at a real context",
    )  # fmt: skip


def collapse_claim() -> Claim:
    """The self weight against t: one curve at every n."""

    def off(n_tokens: int) -> float:
        return float(np.nanmax([abs(self_weight_at(n_tokens, t) - logistic(float(t))) for t in WINDOW_T]))

    found = extrapolated(off, 0.0, 1.0, n_tokens=(10**2, 10**3, 10**4))
    return Claim(
        "collapse", "p is logistic in t = (γ(1−ρ) − 1) ln n at every n", "derived", 0.0, found.limit,
        limit_verdict(0.0, found, 1.0),
        f"largest difference, simplex: {_approach(found.exponent, 1.0)}; {_small(off(100))} at n = 100",
    )  # fmt: skip


def sharp_claim(claimed: float = 0.0) -> Claim:
    """How wide the transition of a simplex is in γ."""
    found = extrapolated(lambda n: window_width(n, RHO), claimed, 0.0, -1)
    return Claim(
        "sharp", "the transition is sharp at γ_c", "Theorem 2.1, Figure 1", claimed, exact(found.here),
        limit_verdict(claimed, found, 0.0),
        f"as n → ∞ alone: p goes from .1 to .9 within Δγ = {found.here:.2f} at n = 10^6, ρ = {RHO:g}, and the width "
        f"falls only as 1/ln n; at 128k tokens it is {window_width(2**17, RHO):.2f}",
    )  # fmt: skip


def layers_claim(dataset: xr.Dataset) -> Claim:
    """How many layers a supercritical simplex lasts."""
    predicted = stability_line(RHO, LAYERS_GAMMA)
    lost = {n: layers_to_collapse(n, RHO, gamma=LAYERS_GAMMA) for n in (REAL_N, HUGE_N)}
    # the derived law is n^c/(2βρ(1-ρ)): its power shows once the factor is taken out
    factor = 2 * LAYERS_GAMMA * math.log(HUGE_N) * RHO * (1 - RHO)
    measured = exact(math.log(lost[HUGE_N] * factor) / math.log(HUGE_N))
    here = math.log(lost[REAL_N]) / math.log(REAL_N)
    recursion, simulated = (dataset[f"layers_{name}"].to_numpy() for name in ("recursion", "simulated"))
    seen = recursion > 1e-6
    differ = float(np.max(np.abs(simulated[seen] / recursion[seen] - 1)))
    return Claim(
        "layers", "the phases hold through poly(n) layers: n^c of them, c = γ(1−ρ) − 1", "after Theorem 2.1; c derived",
        predicted, measured, in_the_end(near(predicted, measured, LIMIT_OF_LAYERS), abs(here - predicted) <= CLOSE),
        f"power of n, γ = {LAYERS_GAMMA:g}, at n = 10^300; at n = 10^6 a simplex lasts {lost[REAL_N]:.0f} layers, not "
        f"n^c = {REAL_N**predicted:.0f}: the factor 2βρ(1−ρ) costs them; critical ones last one. Simulated layers "
        f"agree with the recursion to {_small(differ)}",
    )  # fmt: skip


def laws_claim() -> Claim:
    """Which law of β keeps a simplex critical, and where the others end."""
    ends = {name: 0.0 if LAWS[name].power < 1 else 1.0 for name in LAWS} | {"log": 0.5}
    weights = {name: law(name, [REAL_N, HUGE_N]).self_weight for name in LAWS}
    off = [max(abs(weights[name][i] - ends[name]) for name in LAWS) for i in (0, 1)]
    here = ", ".join(f"{weights[name][0]:.2g}" for name in LAWS)
    return Claim(
        "laws", "only β ∝ ln n stays critical: slower laws dilute, (ln n)² freezes", "table of methods; derived",
        0.0, exact(off[1]), in_the_end(near(0.0, exact(off[1])), off[0] <= CLOSE),
        f"largest difference of p from 0, 0, 1/2 and 1 at n = 10^300, for laws that are all critical at n = 10^4; at 10^6 "
        f"p is {here} for constant, √ln n, ln n, (ln n)²: they part slowly. The source gives (ln n)² for YaRN, ln n for "
        "Qwen, SSMax and SWAN-GPT",
    )  # fmt: skip


def _rate(phase: str, alpha: float) -> float:
    """e of n^-e, by which a phase of :data:`PHASES` approaches its limit."""
    if phase == "critical":
        return 1.0
    reach = abs(PHASES[phase] - 1)
    return 2 * reach if phase == "subcritical" and alpha == 0 else reach


def _in_sight(phase: str, rho: float, q: float, alpha: float, rest: float) -> str:
    """Up to which γ the limit is met to 2 % at n = 10^6."""
    if phase == "critical":
        return ""
    relative = np.linspace(0.0, 1.0, 401) if phase == "subcritical" else np.linspace(1.0, 3.0, 801)
    gammas = relative * critical_gamma(rho)
    off = np.array([abs(simplex_step(REAL_N, rho, g, q=q, alpha=alpha).one_minus_rho - rest) for g in gammas])
    if phase == "subcritical":
        edge = float(crossing(relative, off, np.array(CLOSE)))
        return f"; within {100 * CLOSE:.0f} % there for γ ≤ {edge:.2f} γ_c"
    edge = float(crossing(relative, -off, np.array(-CLOSE)))
    return f"; within {100 * CLOSE:.0f} % there for γ ≥ {edge:.2f} γ_c"


def _approach(fitted: float, rate: float, log_power: int = 0) -> str:
    logs = {0: "", 2: " (ln n)²"}[log_power]
    return f"falls as n^−{fitted:.2f}{logs}, derived n^−{rate:g}{logs}"


def _small(value: float) -> str:
    """A small difference in two digits.

    >>> _small(0.0512), _small(2.3e-7), _small(0.0)
    ('0.051', '2·10^−7', '0')
    """
    if value >= 1e-3 or value == 0:
        return f"{value:.2g}"
    digit, _, power = f"{value:.0e}".partition("e-")
    return f"{digit}·10^−{int(power)}"
