"""The figures of docs/transition.md, from closed forms and small simulations: about a minute on two cores.

Run ``python examples/transition_figures.py FOLDER [NAME ...]``. It writes FOLDER/transition-NAME.svg, all of them or
those that are named. The tables of the same page come from transition_tables.py.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from scipy.special import ive

from attnlim.context import (
    beta_c_iid,
    bridge_exponents,
    bridge_power,
    chain_tokens,
    compare_windows,
    contraction,
    critical_gamma,
    focus,
    gamma_thresholds,
    gaussian_tokens,
    geometry,
    half_weight_gamma,
    independent_row,
    jacobian_energy,
    law_rows,
    layers_to_collapse,
    log_partition,
    log_partition_limit,
    scale_through,
    simplex_cascade,
    simplex_focus,
    simplex_jacobian,
    simplex_kappa,
    simplex_stack,
    simplex_step,
    sphere_tokens,
    stability_line,
)
from attnlim.context.random_energy import concentration_limit
from attnlim.report.figures import INK, MUTED, PHASE_COLOURS, SEQUENTIAL, line_axes

RHO = 0.5
GAMMA_C = critical_gamma(RHO)
BLUE, ORANGE, GREEN, PURPLE = "#0b5fa5", "#d55e00", "#009e73", "#8a4b9f"
DASHED = (0, (4, 3))
RAMP = LinearSegmentedColormap.from_list("n", SEQUENTIAL)
SEED = 0


def phases() -> Figure:
    """λ and η of a simplex over γ, the self weight over t, and the softmax denominator, at n up to 10^300."""
    figure, panels = sheet(2, 2, height=7.4)
    powers = (2, 4, 8, 16, 300)
    gammas = np.linspace(0, 4, 321)
    t = np.linspace(-8, 8, 161)
    for index, power in enumerate(powers):
        n, colour, name = 10**power, RAMP(index / (len(powers) - 1)), f"$n = 10^{{{power}}}$"
        steps = [simplex_step(n, RHO, gamma=g).one_minus_rho / (1 - RHO) for g in gammas]
        panels[0].plot(gammas, steps, color=colour, lw=1.6, label=name)
        energies = [simplex_jacobian(n, n, RHO, gamma=g).total for g in gammas]
        panels[1].plot(gammas, energies, color=colour, lw=1.6)
        place = [(1 + x / math.log(n)) / (1 - RHO) for x in t]
        shown = [(x, g) for x, g in zip(t, place, strict=True) if g >= 0]
        panels[2].plot(
            [x for x, _ in shown], [simplex_step(n, RHO, gamma=g).self_weight for _, g in shown], color=colour, lw=1.6
        )
        ratios = [log_partition(n, RHO, gamma=g) / math.log(n) for g in gammas]
        panels[3].plot(gammas, ratios, color=colour, lw=1.6)
    limit = [log_partition_limit(RHO, g) for g in gammas]
    panels[3].plot(gammas, limit, color=INK, lw=1, ls=DASHED, label=r"$\max(\gamma, 1+\rho\gamma)$")
    panels[2].plot(t, 1 / (1 + np.exp(-t)), color=INK, lw=1, ls=DASHED, label="logistic(t)")
    for axes, level in ((panels[0], 1 / (1 + 3 * RHO)), (panels[1], 0.25)):
        mark_threshold(axes)
        axes.plot([GAMMA_C], [level], "o", color=INK, ms=5, zorder=5)
    mark_threshold(panels[3])
    line_axes(panels[0], "Forward: contraction λ", "γ = β/ln n", "λ")
    line_axes(panels[1], "Backward: Jacobian energy η (d = n)", "γ = β/ln n", "η")
    line_axes(panels[2], "Self weight: one curve for all n", "t = (γ(1−ρ) − 1) ln n", "p")
    line_axes(panels[3], "Softmax denominator", "γ = β/ln n", "ln Z / ln n")
    for axes in panels[:1] + panels[2:]:
        axes.legend(frameon=False, fontsize=9)
    return figure


def measured() -> Figure:
    """λ and the parts of η on the paper's tokens at three widths, beside the closed form at the realised cosine."""
    n, widths = 512, (512, 32, 2)
    figure, panels = sheet(2, 3, height=6.4)
    gammas = np.linspace(0, 4, 41)
    betas = list(gammas * math.log(n))
    for column, width in enumerate(widths):
        x = gaussian_tokens(n, width, RHO, SEED)
        shape = geometry(x)
        gain = float(x.square().sum(dim=1).reciprocal().mean())
        # a line of formal value below n dimensions, as the docstring says
        formal = [simplex_jacobian(n, width, shape.rho_hat, gamma=g).attention for g in gammas]
        steps = [simplex_step(n, shape.rho_hat, gamma=g).one_minus_rho / (1 - shape.rho_hat) for g in gammas]
        above, below = panels[column], panels[3 + column]
        above.plot(gammas, steps, color=MUTED, lw=1.2, ls=DASHED, label="simplex at ρ̂")
        above.plot(gammas, contraction(x, betas).value, color=BLUE, lw=2, label="λ, measured")
        energy = jacobian_energy(x, betas)
        below.plot(gammas, formal, color=MUTED, lw=1.2, ls=DASHED, label="simplex at ρ̂, attention part")
        below.plot(gammas, np.array(energy.attention) / gain, color=ORANGE, lw=2, label="attention part")
        below.plot(gammas, np.array(energy.covariance) / gain, color=GREEN, lw=2, label="covariance part")
        half = half_weight_gamma(n, shape.rho_hat, shape.score_variance)
        for axes in (above, below):
            axes.axvline(critical_gamma(shape.rho_hat), color=INK, lw=1)
            axes.axvline(GAMMA_C, color=MUTED, lw=1, ls=(0, (1, 2)))
            if math.isfinite(half):
                axes.axvline(half, color=PURPLE, lw=1.2, ls=(0, (5, 2, 1, 2)))
            axes.set_ylim(-0.03, 1.08)
        line_axes(above, f"d = {width}, ρ̂ = {shape.rho_hat:.3f}", "", "λ" if column == 0 else "")
        line_axes(below, "", "γ", "η / ⟨1/|x|²⟩" if column == 0 else "")
    panels[2].plot([], [], color=INK, lw=1, label="1/(1−ρ̂)")
    panels[2].plot([], [], color=MUTED, lw=1, ls=(0, (1, 2)), label="1/(1−ρ), nominal")
    panels[2].plot([], [], color=PURPLE, lw=1.2, ls=(0, (5, 2, 1, 2)), label="half-weight point")
    panels[0].legend(frameon=False, fontsize=9, loc="upper left")
    panels[2].legend(frameon=False, fontsize=9, loc="lower right")
    panels[5].legend(frameon=False, fontsize=9, loc="upper right")
    return figure


def width() -> Figure:
    """What is left of the transition at a fixed width: the covariance part on spheres, and λ at d = 2 against β."""
    figure, (left, right) = sheet(1, 2)
    n = 4096
    gammas = np.linspace(0, 3, 25)
    for index, d in enumerate((2, 3, 8, 32)):
        betas = gammas * math.log(n)
        colour = RAMP(index / 3)
        left.plot(gammas, covariance_at_fixed_width(d, betas), color=colour, lw=1.6, label=f"d = {d}")
        energy = jacobian_energy(sphere_tokens(n, d, SEED), list(betas), rows=128, seed=SEED)
        left.plot(gammas, energy.covariance, "o", color=colour, ms=3.5)
    betas = np.geomspace(0.25, 64, 25)
    sizes = (128, 512, 2048, 8192)
    for index, size in enumerate(sizes):
        x = gaussian_tokens(size, 2, RHO, seed=3)
        value = contraction(x, list(betas), rows=min(size, 512), seed=SEED).value
        right.plot(betas, value, color=RAMP(index / 3), lw=1.6, label=f"n = {size}")
    right.set_xscale("log")
    line_axes(left, "Covariance part of η on the sphere, n = 4096", "γ = β/ln n", "η through the weights")
    line_axes(right, "λ at d = 2 is a function of β alone", "β", "λ")
    left.plot([], [], "o", color=MUTED, ms=3.5, label="measured")
    left.plot([], [], color=MUTED, lw=1.6, label="n → ∞ at fixed d and β")
    left.legend(frameon=False, fontsize=9, loc="upper left", ncols=2)
    left.set_ylim(-0.03, 0.92)
    right.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def covariance_at_fixed_width(d: int, betas: np.ndarray) -> np.ndarray:
    """(1-1/d) R_d(β)², its limit as n → ∞ on a sphere of dimension d: docs/derivations.md, "fixed width"."""
    mean_length = np.where(betas > 0, ive(d / 2, betas) / np.where(betas > 0, ive(d / 2 - 1, betas), 1.0), 0.0)
    return (1 - 1 / d) * mean_length**2


def causal() -> Figure:
    """Rows of one causal layer at a fixed β: early ones are supercritical."""
    figure, (left, right) = sheet(1, 2)
    rows = np.unique(np.geomspace(2, 10**6, 241).astype(int))
    for index, middle in enumerate((64, 1024, 16384)):
        beta = math.log(middle) / (1 - RHO)
        weights = [1.0] + [simplex_step(int(i), RHO, beta=beta).self_weight for i in rows]
        label = f"β = 2 ln {middle}"
        left.plot([1, *rows], weights, color=RAMP(index / 2), lw=1.8, label=label)
    left.axhline(0.5, color=MUTED, lw=1, ls=DASHED)
    n, width, middle = 4096, 512, 1024
    x = gaussian_tokens(n, width, RHO, SEED)
    rho_hat = geometry(x, anchors=512).rho_hat
    beta = math.log(middle) / (1 - rho_hat)
    perplexity = focus(x, beta, causal=True).perplexity.numpy()
    seen = np.arange(1, n + 1)
    closed = [simplex_focus(int(i), rho_hat, beta=beta).perplexity for i in seen[1:]]
    right.plot(
        seen[::8], perplexity[::8], "o", color=BLUE, ms=2.2, mew=0, alpha=0.6, label=f"drawn tokens, d = {width}"
    )
    right.plot(seen[1:], closed, color=INK, lw=1.4, label="simplex at ρ̂")
    right.plot(seen, seen, color=MUTED, lw=1, ls=DASHED, label="all visible tokens")
    for axes in (left, right):
        axes.set_xscale("log")
    right.set_yscale("log")
    line_axes(left, f"Self weight of row i, ρ = {RHO:g}", "i, tokens that the row sees", "p of row i")
    line_axes(right, f"Tokens attended, β critical at row {middle}", "i, tokens that the row sees", "$e^H$ of row i")
    left.legend(frameon=False, fontsize=9)
    right.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def focus_exponent() -> Figure:
    """κ(γ) in closed form and on drawn tokens, and how the two counts of attended tokens disagree."""
    figure, (left, right) = sheet(1, 2)
    sizes = (256, 512, 1024, 2048)
    gammas = np.linspace(0.5, 4, 22)
    fine = np.linspace(0.5, 4, 281)
    left.axhspan(0.8, 1.35, color=PHASE_COLOURS["diluted"], alpha=0.13, lw=0)
    left.axhspan(0.2, 0.8, color=PHASE_COLOURS["sparse"], alpha=0.13, lw=0)
    left.axhspan(-0.35, 0.2, color=PHASE_COLOURS["frozen"], alpha=0.13, lw=0)
    left.plot(fine, [simplex_kappa(sizes, RHO, g) for g in fine], color=INK, lw=1.4, label="simplex, closed form")
    for d, colour in ((256, BLUE), (32, ORANGE)):
        kappa = kappa_of_tokens(d, sizes, gammas)
        found = gamma_thresholds(gammas, kappa)
        left.plot(gammas, kappa, color=colour, lw=1.8, label=f"drawn tokens, d = {d}")
        left.plot([found.gamma_1, found.gamma_2], [0.8, 0.2], "o", color=colour, ms=5)
    left.set_ylim(-0.35, 1.35)
    left.set_xlim(0.5, 4)
    for height, name in ((1.18, "diluted"), (0.5, "sparse"), (-0.25, "frozen")):
        left.text(3.92, height, name, ha="right", va="center", size=9, color=MUTED)
    n = np.unique(np.geomspace(10, 10**6, 41).astype(int))
    for gamma, phase in ((0.8 * GAMMA_C, "diluted"), (GAMMA_C, "sparse"), (1.2 * GAMMA_C, "frozen")):
        rows = [simplex_focus(int(size), RHO, gamma=gamma) for size in n]
        right.plot(n, [row.perplexity for row in rows], color=PHASE_COLOURS[phase], lw=2, label=f"γ = {gamma:g}: $e^H$")
        right.plot(n, [row.participation for row in rows], color=PHASE_COLOURS[phase], lw=1.4, ls=DASHED)
    right.plot([], [], color=MUTED, lw=1.4, ls=DASHED, label="1/ΣA²")
    right.set_xscale("log")
    right.set_yscale("log")
    line_axes(left, "Focus exponent κ(γ), n = 256 … 2048", "γ", "κ")
    line_axes(right, "Two counts of attended tokens, simplex", "n", "tokens")
    left.legend(frameon=False, fontsize=9, loc="lower left")
    right.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def kappa_of_tokens(d: int, sizes: Sequence[int], gammas: np.ndarray) -> np.ndarray:
    """κ at each γ, from the mean entropy of the rows of the paper's tokens, the first n of one draw."""
    x = gaussian_tokens(max(sizes), d, RHO, SEED).float()
    entropy = np.array([focus(x[:n], list(gammas * math.log(n))).entropy.mean(dim=1).numpy() for n in sizes])
    log_n = np.log(sizes) - np.log(sizes).mean()
    return np.asarray(log_n @ entropy / (log_n @ log_n))


def layers() -> Figure:
    """The exact cascade of a simplex, the Jacobian of the stack, and how many layers it takes to collapse."""
    figure, panels = sheet(1, 3)
    n, depth = 10**6, 40
    cases = ((1.6, ORANGE), (2.0, GREEN), (2.2, BLUE), (3.0, PURPLE))
    for gamma, colour in cases:
        for alpha, style in ((0.0, "-"), (0.5, DASHED)):
            name = f"γ = {gamma:g}" if alpha == 0 else None
            cascade = simplex_cascade(n, depth, RHO, gamma=gamma, alpha=alpha)
            panels[0].plot(cascade.one_minus_rho.clip(1e-16), color=colour, ls=style, lw=1.6, label=name)
            eta = simplex_stack(n, depth, n, RHO, gamma=gamma, alpha=alpha).eta
            panels[1].plot(eta.clip(1e-16), color=colour, ls=style, lw=1.6, label=name)
    panels[1].plot([], [], color=MUTED, ls=DASHED, lw=1.4, label="α = 0.5")
    powers = np.arange(2, 25)
    for gamma, colour in ((2.2, BLUE), (2.5, GREEN), (3.0, PURPLE)):
        line = stability_line(RHO, gamma)
        counts = [layers_to_collapse(10 ** int(k), RHO, gamma) for k in powers]
        panels[2].plot(powers, np.log10(counts), color=colour, lw=1.8, label=f"γ = {gamma:g}, c = {line:g}")
        constant = math.log10(counts[-1]) - line * powers[-1] + math.log10(powers[-1])
        panels[2].plot(powers, line * powers + constant - np.log10(powers), color=colour, lw=1, ls=DASHED)
    for axes in panels[:2]:
        axes.set_yscale("log")
        axes.set_ylim(1e-16, 10)
    line_axes(panels[0], "1 − ρ through the layers, n = 10⁶", "layer", "1 − ρ")
    line_axes(panels[1], "η of the stack, d = n", "layer", "η")
    line_axes(panels[2], "Layers until 1 − ρ has halved", "log₁₀ n", "log₁₀ layers")
    for axes, place in zip(panels, ("center right", "lower right", "upper left"), strict=True):
        axes.legend(frameon=False, fontsize=8.5, loc=place)
    return figure


def laws() -> Figure:
    """Four laws of β_n that meet at the threshold at n = 4096, on a simplex."""
    figure, panels = sheet(2, 2, height=7.0)
    sizes = [int(n) for n in np.unique(np.geomspace(16, 1e12, 121).astype(np.int64))]
    beta = GAMMA_C * math.log(4096)
    styles = (
        ("constant", BLUE, "-"),
        ("sqrt-log", ORANGE, (0, (5, 2))),
        ("log", GREEN, "-"),
        ("log-squared", PURPLE, "-"),
    )
    words = {"constant": "constant", "sqrt-log": "√ln n", "log": "ln n", "log-squared": "(ln n)²"}
    for name, colour, style in styles:
        rows = law_rows(name, sizes, RHO, scale=scale_through(name, 4096, beta), width=10**12)
        for axes, values in zip(panels, (rows.gamma, rows.rho, rows.eta, rows.entropy / rows.log_n), strict=True):
            axes.plot(sizes, values, color=colour, ls=style, lw=1.8, label=words[name])
    for axes in panels:
        axes.set_xscale("log")
        axes.axvline(4096, color=MUTED, lw=1, ls=(0, (1, 2)))
    panels[0].axhline(GAMMA_C, color=INK, lw=1)
    panels[0].set_ylim(0, 6)
    line_axes(panels[0], "Effective γ(n) = β/ln n", "n", "γ")
    line_axes(panels[1], "Cosine after one layer", "n", "ρ'")
    line_axes(panels[2], "Jacobian energy", "n", "η")
    line_axes(panels[3], "Entropy of a row over ln n", "n", "H / ln n")
    panels[0].legend(frameon=False, fontsize=9)
    return figure


def scores() -> Figure:
    """Independent scores beside the simplex, and the bridge between the two laws of β_c."""
    figure, (left, right) = sheet(1, 2)
    ratios = np.linspace(0.02, 3, 60)
    powers = (3, 6, 12, 100)
    for index, power in enumerate(powers):
        n = 10**power
        beta_c = beta_c_iid(n, 1.0)
        values = [independent_row(n, float(r * beta_c), sigma=1.0).concentration for r in ratios]
        left.plot(
            ratios, values, color=RAMP(index / (len(powers) - 1)), lw=1.6, label=f"normal scores, $n = 10^{{{power}}}$"
        )
    left.plot(
        ratios, [concentration_limit(float(r)) for r in ratios], color=INK, lw=1.2, ls=DASHED, label="their limit"
    )
    simplex = [1 / simplex_focus(10**6, RHO, gamma=float(r) * GAMMA_C).participation for r in ratios]
    left.plot(ratios, simplex, color=ORANGE, lw=1.8, label="simplex, $n = 10^6$")
    shares = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    sizes, width = (512, 1024, 2048, 4096), 128
    bridge = bridge_exponents(shares, sizes, width, RHO, n_draws=8, n_rows=64, seed=SEED)
    bars = (bridge.exponent - bridge.exponent_low, bridge.exponent_high - bridge.exponent)
    right.errorbar(
        bridge.epsilon, bridge.exponent, bars, fmt="o", color=BLUE, ms=4.5, lw=1.2, capsize=2,
        label="fitted to the gap count (95 %)",
    )  # fmt: skip
    fine = np.linspace(0, 1, 401)
    local = np.array([[bridge_power(n, RHO, width, float(e)) for e in fine] for n in (512, 4096)])
    for values, style, n in zip(local, ("-", (0, (5, 2))), (512, 4096), strict=True):
        right.plot(fine, values, color=INK, lw=1.2, ls=style, label=f"closed form, local at n = {n}")
    right.axhline(0.5, color=MUTED, lw=1, ls=(0, (1, 2)))
    right.set_ylim(0, 2.2)
    line_axes(left, "A row across its own threshold", r"$\beta/\beta_c$", "mean of ΣA²")
    line_axes(right, rf"Power of ln n that $\beta_c$ follows, d = {width}", "ε, share of noise in $K^TQ$", "power")
    left.legend(frameon=False, fontsize=8.5, loc="lower right")
    right.legend(frameon=False, fontsize=8.5, loc="lower left")
    return figure


def windows() -> Figure:
    """Attended cosine of content and of windows at an equal number of tokens, before and after a permutation."""
    figure, (left, right) = sheet(1, 2)
    betas = sorted({*np.geomspace(1, 60, 10), *np.linspace(3, 14, 12)})
    for axes, length in ((left, 20.0), (right, 2.0)):
        found = compare_windows(chain_tokens(2048, 64, length, SEED), betas, seed=SEED)
        axes.plot(found.perplexity, found.content, color=BLUE, lw=2, label="content, before and after")
        axes.plot(found.perplexity, found.window, color=ORANGE, lw=2, label="window")
        axes.plot(
            found.perplexity, found.window_permuted, color=ORANGE, lw=2, ls=DASHED, label="window, tokens permuted"
        )
        axes.axhline(found.rho_hat, color=MUTED, lw=1, ls=(0, (1, 2)), label="mean cosine ρ̂")
        axes.set_xscale("log")
        axes.set_ylim(-0.03, 1.03)
        line_axes(axes, f"Correlation length {length:g} tokens", "tokens attended, $e^H$", "mean attended cosine")
    right.legend(frameon=False, fontsize=9, loc="upper right")
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "phases": phases,
    "measured": measured,
    "width": width,
    "causal": causal,
    "focus": focus_exponent,
    "layers": layers,
    "laws": laws,
    "scores": scores,
    "windows": windows,
}


def write(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """Draw some of the figures into files; the same machine draws the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"transition-{name}.svg"
        with rc_context({"svg.hashsalt": "attnlim"}):
            FIGURES[name]().savefig(path, metadata={"Date": None})
        yield path


def sheet(rows: int, columns: int, height: float = 3.9) -> tuple[Figure, list[Axes]]:
    """A figure of ten inches with its panels in a list, row by row."""
    figure = Figure(figsize=(10, height), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08, wspace=0.03, hspace=0.05)  # type: ignore[union-attr, call-arg]
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def mark_threshold(axes: Axes) -> None:
    axes.axvline(GAMMA_C, color=MUTED, lw=1, ls=(0, (1, 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write the figures")
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(FIGURES)}; all without")
    given = parser.parse_args()
    unknown = set(given.names) - FIGURES.keys()
    if unknown:
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    for path in write(given.folder, given.names or list(FIGURES)):
        print(path, flush=True)


if __name__ == "__main__":
    main()
