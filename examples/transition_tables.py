"""The tables of docs/transition.md and docs/tokens.md, from closed forms and small simulations.

Run ``python examples/transition_tables.py`` to print them all, with names to print some, with ``--put`` to write them
into the pages below their ``<!-- printed by`` comments. The table of hidden states needs SmolLM2-135M.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from attnlim.context import (
    LAWS,
    FocusThresholds,
    assumption_two,
    bridge_exponents,
    bridge_power,
    bridge_turn,
    contraction,
    counterexample_pair,
    counterexample_smallest,
    critical_gamma,
    focus,
    gamma_thresholds,
    gaussian_tokens,
    geometry,
    half_weight_gamma,
    jacobian_energy,
    jacobian_limit,
    law_rows,
    layers_to_collapse,
    log_n_at_threshold,
    mean_inverse_square,
    scale_through,
    simplex_gamma_thresholds,
    simplex_jacobian,
    simplex_limit,
    simplex_step,
    stability_line,
    supercritical_jacobian_limit,
    window_width,
)
from attnlim.context import crossings as find_falls

DOCS = Path(__file__).parents[1] / "docs"
RHO, SEED = 0.5, 0
GAMMA_C = critical_gamma(RHO)


def window() -> str:
    """How blurred the transition of a simplex is at finite n."""
    lines = ["| n | Δγ/γ_c | λ at 0.8 γ_c | at γ_c | at 1.25 γ_c | η at 0.8 γ_c | at γ_c | at 1.25 γ_c |", head(1, 7)]
    for power in (3, 4, 5, 6, 12, 100, 300):
        n = 10**power
        gammas = [factor * GAMMA_C for factor in (0.8, 1.0, 1.25)]
        ratios = [simplex_step(n, RHO, gamma=g).one_minus_rho / (1 - RHO) for g in gammas]
        energies = [simplex_jacobian(n, n, RHO, gamma=g).total for g in gammas]
        cells = [f"{value:.3f}" for value in (*ratios, *energies)]
        lines.append(row(f"10<sup>{power}</sup>", f"{100 * window_width(n, RHO) / GAMMA_C:.1f} %", *cells))
    return "\n".join(lines)


def crossings() -> str:
    """Where λ and the attention part of η pass their values at the threshold, on the tokens of the second figure."""
    lines = [
        "| d | ρ̂ | 1/(1−ρ̂) | half-weight point | λ passes 1/(1+3ρ̂) | η passes a quarter | largest covariance part |",
        head(1, 6),
    ]
    n = 512
    gammas = np.linspace(0, 4, 41)
    for d in (512, 32, 2):
        x = gaussian_tokens(n, d, RHO, SEED)
        found = geometry(x)
        betas = list(gammas * math.log(n))
        limit = supercritical_jacobian_limit(x.square().sum(dim=1), d)
        energy = jacobian_energy(x, betas)
        places = (
            half_weight_gamma(n, found.rho_hat, found.score_variance),
            rises(gammas, contraction(x, betas).value, 1 / (1 + 3 * found.rho_hat)),
            rises(gammas, energy.attention, limit / 4),
        )
        share = max(energy.covariance) / limit
        cells = (f"{found.rho_hat:.3f}", f"{critical_gamma(found.rho_hat):.2f}", *(dash(at, ".2f") for at in places))
        lines.append(row(d, *cells, f"{100 * share:.0f} %"))
    return "\n".join(lines)


def rises(gammas: np.ndarray, values: list[float], level: float) -> float:
    """The γ at which a curve first rises through a level, linear between the points; NaN where it does not."""
    falling = find_falls(gammas, -np.asarray(values), -level)
    return falling[0] if falling else math.nan


def half_weight() -> str:
    """Where drawn tokens keep half of their attention, and where the formula says so."""
    lines = ["| d | ρ̂ | v | 1/(1−ρ̂) | half-weight point | measured |", head(1, 5)]
    for d in (2, 8, 16, 32, 64, 128, 512):
        x = gaussian_tokens(1024, d, RHO, SEED)
        found = geometry(x)
        formula = half_weight_gamma(1024, found.rho_hat, found.score_variance)
        lines.append(
            row(
                d,
                f"{found.rho_hat:.3f}",
                f"{found.score_variance:.5f}",
                f"{critical_gamma(found.rho_hat):.3f}",
                dash(formula, ".3f"),
                dash(measured_half_weight(x), ".3f"),
            )
        )
    return "\n".join(lines)


def measured_half_weight(x: Tensor) -> float:
    """The γ at which the mean self weight is 1/2; NaN where that is beyond γ = 40."""
    y = x / x.norm(dim=1, keepdim=True)
    apart = (1 - y @ y.T).fill_diagonal_(0.0).numpy()
    log_n = math.log(len(x))

    def excess(gamma: float) -> float:
        return float((1 / np.exp(-gamma * log_n * apart).sum(axis=1)).mean()) - 0.5

    return float(brentq(excess, 0.0, 40.0, xtol=1e-6)) if excess(40.0) > 0 else math.nan


def norms() -> str:
    """η far above the threshold on tokens of unequal norm."""
    lines = [
        "| d | 1 − 1/d | (1 − 1/d) ⟨1/\\|x\\|²⟩ of the draw | expected over draws | η at γ = 8, measured |",
        head(1, 4),
    ]
    for d in (2, 4, 8, 32, 512):
        x = gaussian_tokens(1024, d, RHO, SEED)
        limit = supercritical_jacobian_limit(x.square().sum(dim=1), d)
        average = (1 - 1 / d) * mean_inverse_square(d)
        measured = jacobian_energy(x, 8 * math.log(1024)).total
        cells = (
            f"{1 - 1 / d:.3f}",
            f"{limit:.3f}",
            "∞" if math.isinf(average) else f"{average:.3f}",
            f"{measured:.3f}",
        )
        lines.append(row(d, *cells))
    return "\n".join(lines)


def residual() -> str:
    """Limits with a residual branch, below, at and above the threshold."""
    names = ("subcritical", "critical", "supercritical")
    lines = ["| α | λ below | λ at γ_c | λ above | η below | η at γ_c | η above |", head(1, 6)]
    for alpha in (0.0, 0.25, 0.5, 1.0):
        ratios = [simplex_limit(RHO, phase=name, alpha=alpha).one_minus_rho / (1 - RHO) for name in names]
        energies = [jacobian_limit(RHO, 10**9, phase=name, alpha=alpha) for name in names]
        lines.append(row(f"{alpha:g}", *(f"{value:.3f}" for value in (*ratios, *energies))))
    return "\n".join(lines)


def thresholds() -> str:
    """γ_1 and γ_2: where κ(γ) falls through 0.8 and through 0.2."""
    lines = ["| tokens | n | γ_1 | γ_2 | γ_2 − γ_1 |", "|---|---|---:|---:|---:|"]

    def add(name: str, sizes: str, found: FocusThresholds) -> None:
        values = (found.gamma_1, found.gamma_2, found.gamma_2 - found.gamma_1)
        lines.append(row(name, sizes, *(f"{value:.3f}" for value in values)))

    sizes = (256, 512, 1024, 2048)
    for first, shown in (
        (256, "256 … 2048"),
        (10**6, "10<sup>6</sup> … 8·10<sup>6</sup>"),
        (10**100, "10<sup>100</sup> … 8·10<sup>100</sup>"),
    ):
        add("simplex, closed form", shown, simplex_gamma_thresholds([first * k for k in (1, 2, 4, 8)], RHO))
    gammas = np.linspace(1.4, 3.6, 23)
    for d in (256, 32):
        x = gaussian_tokens(max(sizes), d, RHO, SEED).float()
        entropy = [focus(x[:n], list(gammas * math.log(n))).entropy.mean(dim=1).numpy() for n in sizes]
        log_n = np.log(sizes) - np.log(sizes).mean()
        kappa = log_n @ np.array(entropy) / (log_n @ log_n)
        add(f"drawn, d = {d}", "256 … 2048", gamma_thresholds(gammas, kappa))
    return "\n".join(lines)


def layers() -> str:
    """How many equal layers a simplex lasts."""
    powers = (4, 6, 12, 24)
    lines = [row("γ", "c = γ(1−ρ) − 1", *(f"n = 10<sup>{k}</sup>" for k in powers)), head(1, 1 + len(powers))]
    for gamma in (1.6, 2.0, 2.2, 2.5, 3.0):
        counts = [layers_to_collapse(10**k, RHO, gamma) for k in powers]
        line = signed(round(stability_line(RHO, gamma), 9) + 0.0, 2)
        lines.append(row(f"{gamma:g}", line, *(whole(count) for count in counts)))
    return "\n".join(lines)


def laws() -> str:
    """Four laws that meet at the threshold at n = 4096, and what they do at a million tokens."""
    words = {"constant": "constant", "sqrt-log": "√ln n", "log": "ln n", "log-squared": "(ln n)²"}
    lines = [
        "| β_n | used by, after the paper | threshold at n | γ at 10<sup>6</sup> | ρ' | η | tokens attended |",
        head(2, 5),
    ]
    for name, law in LAWS.items():
        scale = scale_through(name, 4096, GAMMA_C * math.log(4096))
        crossing = math.exp(log_n_at_threshold(name, RHO, scale))
        at = law_rows(name, [10**6], RHO, scale=scale)
        values = (f"{at.gamma[0]:.2f}", f"{at.rho[0]:.3f}", f"{at.eta[0]:.3f}", f"{at.perplexity[0]:,.0f}")
        place = "on it at every n" if math.isnan(crossing) else f"{crossing:.0f}"
        lines.append(row(words[name], ", ".join(law.used_by) or "–", place, *values))
    return "\n".join(lines)


def bridge() -> str:
    """The power of ln n along the bridge from identity to noise, in closed form and fitted to the gap count."""
    shares, sizes, width = (0.0, 0.4, 0.6, 0.8, 1.0), (512, 1024, 2048, 4096), 128
    found = bridge_exponents(shares, sizes, width, RHO, n_draws=8, n_rows=64, seed=SEED)
    lines = [
        "| ε | power at n = 512, closed form | at n = 4096 | turns at n | fitted to the gap count (95 %) |",
        head(1, 4),
    ]
    for k, share in enumerate(shares):
        turn = bridge_turn(RHO, width, share) / math.log(10)
        fitted = f"{found.exponent[k]:.2f} ({found.exponent_low[k]:.2f} … {found.exponent_high[k]:.2f})"
        powers = [f"{bridge_power(n, RHO, width, share):.2f}" for n in (512, 4096)]
        lines.append(row(f"{share:g}", *powers, f"10<sup>{turn:.1f}</sup>" if math.isfinite(turn) else "never", fitted))
    return "\n".join(lines)


def counterexamples() -> str:
    """What one layer makes of a pair and of the smallest cosine, below 1/(1-ρ_1)."""
    lines = ["| n | pair, 0.95 before | smallest cosine, −0.20 before |", head(1, 2)]
    for n, shown in (
        (200, "200"),
        (2000, "2000"),
        (10**6, "10<sup>6</sup>"),
        (10**12, "10<sup>12</sup>"),
        (10**300, "10<sup>300</sup>"),
    ):
        lines.append(row(shown, f"{counterexample_pair(n).after:.3f}", signed(counterexample_smallest(n).after)))
    return "\n".join(lines)


def assumption() -> str:
    """Assumption 2 on drawn tokens: bounds, mean over draws, and the share of draws that meet it."""
    lines = [
        "| tokens | d | n | ρ_1 | ρ_2 | q_1 | q_2 | 1/(1−ρ_1) | 1/(1−ρ_2) | draws with ρ_1 > 0 |",
        "|---|" + 9 * "---:|",
    ]
    for kind, rho in (("gaussian", RHO), ("half-sphere", None)):
        table = assumption_two(kind, [64, 1024], [2, 32, 512], rho=rho, seeds=range(8))
        for (d, n), part in table.groupby(["width", "n_tokens"]):
            bounds = [signed(part[name].mean()) for name in ("rho_1", "rho_2")]
            squares = [f"{part[name].mean():.3f}" for name in ("q_1", "q_2")]
            gammas = [short(part[name].median()) for name in ("gamma_low", "gamma_high")]
            name = f"{kind}, ρ = {rho:g}" if rho else kind
            lines.append(row(name, d, n, *bounds, *squares, *gammas, f"{int(part.holds.sum())} of {len(part)}"))
    return "\n".join(lines)


def hidden(loaded: Any = None) -> str:
    """The geometry of SmolLM2's hidden states, and λ of the paper's layer on them."""
    from attnlim.models import load
    from attnlim.models.hidden_states import hidden_states

    model = loaded or load("smollm2", device="cpu")
    lines = [
        "| entering layer | ρ̂ | ρ_1 | \\|x\\|, smallest … largest | duplicates | γ = 1/(1−ρ̂) | λ at half of it | at it | a simplex at it | at twice it |",
        head(1, 9),
    ]
    for layer in (0, 1, 10, 20, 30):
        x = hidden_states(model, None, 512, layer)
        found = geometry(x)
        gamma = critical_gamma(found.rho_hat)
        ratios = contraction(x, [factor * gamma * math.log(512) for factor in (0.5, 1.0, 2.0)]).value
        columns = (*ratios[:2], 1 / (1 + 3 * found.rho_hat), ratios[2])
        lengths = " … ".join(f"{float(f'{math.sqrt(q):.3g}'):,g}" for q in (found.q_1, found.q_2))
        cells = (f"{found.rho_hat:.2f}", signed(found.rho_1, 2), lengths, found.duplicates, f"{gamma:.2f}")
        lines.append(
            row("30, the last output" if layer == 30 else layer, *cells, *(f"{value:.2f}" for value in columns))
        )
    return "\n".join(lines)


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "window": ("transition.md", window),
    "crossings": ("transition.md", crossings),
    "half_weight": ("transition.md", half_weight),
    "norms": ("transition.md", norms),
    "residual": ("transition.md", residual),
    "thresholds": ("transition.md", thresholds),
    "layers": ("transition.md", layers),
    "laws": ("transition.md", laws),
    "bridge": ("transition.md", bridge),
    "counterexamples": ("transition.md", counterexamples),
    "assumption": ("tokens.md", assumption),
    "hidden": ("tokens.md", hidden),
}


def head(left: int, right: int) -> str:
    """The line below a table's first: so many columns to the left, so many to the right."""
    return "|" + left * "---|" + right * "---:|"


def row(*cells: Any) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def dash(value: float, form: str) -> str:
    """A number, or a dash where there is none."""
    return "–" if math.isnan(value) else f"{value:{form}}"


def signed(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def short(value: float) -> str:
    """Two digits behind the point, or a whole number from 100 on."""
    return f"{value:.2f}" if value < 100 else whole(value)


def whole(value: float) -> str:
    """A count, with a power of ten from 10^4 on."""
    if value < 1e4:
        return f"{value:.0f}"
    power = math.floor(math.log10(value))
    return f"{value / 10**power:.1f}·10<sup>{power}</sup>"


def put(name: str) -> None:
    """Replace the table below the page's comment that names it."""
    page, table = TABLES[name]
    path = DOCS / page
    text = path.read_text(encoding="utf-8")
    begin = text.index(f"<!-- printed by: python examples/transition_tables.py {name} -->")
    begin = text.index("\n\n", begin) + 2
    end = text.index("\n\n", begin)
    path.write_text(text[:begin] + table() + text[end:], encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(TABLES)}; all without")
    parser.add_argument("--put", action="store_true", help="write them into the pages")
    given = parser.parse_args()
    unknown = set(given.names) - TABLES.keys()
    if unknown:
        parser.error(f"no table {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    torch.set_grad_enabled(False)
    for name in given.names or TABLES:
        if given.put:
            put(name)
        else:
            print(f"{name}\n\n{TABLES[name][1]()}\n")


if __name__ == "__main__":
    main()
