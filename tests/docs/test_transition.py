"""What the pages on the context limit say: tables and sentences recomputed, derivations linked, figures drawn."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import attnlim.context
from attnlim.context import (
    contraction,
    counterexample_pair,
    counterexample_smallest,
    critical_gamma,
    gaussian_tokens,
    geometry,
    half_weight_gamma,
    jacobian_energy,
    simplex_cascade,
    simplex_stack,
    sphere_tokens,
    window_width,
)

PAGES = ("transition.md", "derivations.md", "tokens.md")
SOURCES = Path(attnlim.context.__file__).parent


def page(root: Path, name: str) -> str:
    return (root / "docs" / name).read_text(encoding="utf-8")


def table_of(text: str, name: str) -> str:
    begin = text.index(f"<!-- printed by: python examples/transition_tables.py {name} -->")
    return text[begin:].split("\n\n")[1]


TABLES = (
    *("window", "crossings", "half_weight", "norms", "residual", "thresholds", "layers", "laws", "bridge"),
    *("counterexamples", "assumption"),
)


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_recomputed(name: str, root: Path, transition_tables: ModuleType, one_thread: Any) -> None:
    where, table = transition_tables.TABLES[name]
    assert table_of(page(root, where), name) == table()


def test_table_of_hidden_states(root: Path, transition_tables: ModuleType, smollm2: Any, one_thread: Any) -> None:
    assert table_of(page(root, "tokens.md"), "hidden") == transition_tables.hidden(smollm2)
    assert "4-bit weights, dequantised" in page(root, "tokens.md")


def test_every_table_of_the_script_is_on_its_page(root: Path, transition_tables: ModuleType) -> None:
    assert set(transition_tables.TABLES) == {*TABLES, "hidden"}
    said = re.findall(r"transition_tables\.py (\w+) -->", page(root, "transition.md") + page(root, "tokens.md"))
    assert sorted(said) == sorted(transition_tables.TABLES)


def test_sentences_of_the_transition(root: Path, one_thread: Any) -> None:
    text = " ".join(page(root, "transition.md").split())
    n = 10**6
    share = window_width(n, 0.5) / critical_gamma(0.5)
    assert 0.3 < share < 0.35, "a third of γ_c"
    pair, smallest = counterexample_pair(), counterexample_smallest()
    on_pair = contraction(pair.tokens(), pair.gamma * math.log(pair.n_tokens))
    on_smallest = contraction(smallest.tokens(), smallest.gamma * math.log(smallest.n_tokens))
    assert round(on_smallest.fraction_contracted, 2) == 0.5
    plane = jacobian_energy(sphere_tokens(4096, 2, 0), [g * math.log(4096) for g in (0.25, 3.0)], rows=128, seed=0)
    first, last = plane.covariance
    for said in (
        "At n = 10<sup>6</sup> it still takes a third of γ_c.",
        f"p goes from 0.1 to 0.9 over Δγ = {2 * math.log(9):.2f} γ_c/ln n",
        f"at d = 128 it is {geometry(gaussian_tokens(1024, 128, 0.5, 0)).rho_hat:.3f} here where 0.5 was asked for",
        f"that is the plateau of {first:.2f} … {last:.2f} over γ = 0.25 … 3 at n = 4096",
        f"n<sup>0.1</sup> is {n**0.1:.0f} at a million tokens",
        f"1/(1−ρ_1) = {pair.gamma_low:.2f}",
        f"Of all pairs {100 * on_pair.fraction_contracted:.1f} % contract and λ = {on_pair.value:.2f}",
        f"Two counterexamples at γ = {pair.gamma:g}",
        "not yet run on CUDA",
    ):
        assert said in text, said
    assert pair.gamma == smallest.gamma < min(pair.gamma_low, smallest.gamma_low)


def test_sentences_on_many_layers() -> None:
    """A handful of layers at γ = 2.2; α² a layer with a residual; η of order 1/n after the collapse."""
    n = 10**6
    fallen = simplex_cascade(n, 10, 0.5, gamma=2.2).one_minus_rho
    assert (fallen[5:] < 1e-6).all()
    settled = simplex_cascade(n, 40, 0.5, gamma=1.6, alpha=0.5).one_minus_rho
    # norms settle by the factor α a layer
    assert settled[21:31] / settled[20:30] == pytest.approx(0.25, rel=2 * 0.5**20)
    for gamma in (1.6, 2.0, 2.2):
        assert 0.1 < n * simplex_stack(n, 10, n, 0.5, gamma=gamma).eta[-1] < 10


@pytest.mark.parametrize(("d", "bound"), [(2, 0.02), (3, 0.05)])
def test_covariance_at_a_fixed_width(d: int, bound: float, transition_figures: ModuleType) -> None:
    """The formula of the derivation, to which η on a sphere converges as n grows; measured over all rows."""
    gammas, errors = np.array([0.25, 0.5, 1.0, 2.0]), []
    for n in (256, 4096):
        betas = gammas * math.log(n)
        wanted = transition_figures.covariance_at_fixed_width(d, betas)
        energy = jacobian_energy(sphere_tokens(n, d, 3), list(betas), rows=min(n, 512), seed=3)
        errors.append(float(np.abs(energy.covariance / wanted - 1).max()))
        if n == 4096:
            assert energy.covariance == pytest.approx(list(wanted), rel=bound)
            assert max(energy.attention) < 0.01
    assert errors[1] < errors[0]
    # the control: at d = 32 as many tokens are too few
    many = jacobian_energy(sphere_tokens(4096, 32, 3), 2 * math.log(4096), rows=64).covariance
    assert many < 0.2 * transition_figures.covariance_at_fixed_width(32, np.array([2 * math.log(4096)]))[0]


def test_at_two_dimensions_contraction_depends_on_beta_alone() -> None:
    curves = [contraction(gaussian_tokens(n, 2, 0.5, 3), [1.0, 4.0, 16.0], rows=256).value for n in (512, 8192)]
    # sampled rows, and directions of another sample: 0.05; at one γ instead the values differ by more
    assert curves[0] == pytest.approx(curves[1], abs=0.05)
    gammas = [contraction(gaussian_tokens(n, 2, 0.5, 3), 0.5 * math.log(n), rows=256).value for n in (512, 8192)]
    assert gammas[1] - gammas[0] > 0.05


@pytest.mark.parametrize("rho", [0.2, 0.5, 0.8])
def test_variance_of_the_paper_s_cosines(rho: float) -> None:
    """v of the half-weight point, to first order in 1/d: 3 % at d = 512 over draws."""
    draws = [geometry(gaussian_tokens(256, 512, rho, seed)) for seed in range(12)]
    wanted = [(1 - g.rho_hat) ** 2 * (1 + g.rho_hat - g.rho_hat**2 / 2) / 512 for g in draws]
    assert np.mean([g.score_variance for g in draws]) == pytest.approx(np.mean(wanted), rel=0.03)


def test_least_width_of_a_half_weight_point() -> None:
    def variance(d: int) -> float:
        return (1 - 0.5) ** 2 * (1 + 0.5 - 0.125) / d

    assert math.isnan(half_weight_gamma(1024, 0.5, variance(19)))
    assert half_weight_gamma(1024, 0.5, variance(20)) > 2


def docstring_links() -> dict[str, set[str]]:
    """Anchor in derivations.md → files of the package whose docstrings link to it."""
    found: dict[str, set[str]] = {}
    for path in SOURCES.glob("*.py"):
        for anchor in re.findall(r"\]\(\.\./derivations\.md#([\w-]+)\)", path.read_text(encoding="utf-8")):
            found.setdefault(anchor, set()).add(path.name)
    return found


def test_derivations_and_docstrings_link_to_each_other(root: Path) -> None:
    anchors = set(re.findall(r"^## .*\{ #([\w-]+) \}$", page(root, "derivations.md"), re.M))
    assert anchors, "sections carry their anchors"
    linked = docstring_links()
    assert linked.keys() <= anchors
    # the one result that has no function
    assert anchors - linked.keys() == {"fixed-width"}
    for path in SOURCES.glob("*.py"):
        for source in re.findall(r"^    Source:.*\n(?:    \S.*\n)*", path.read_text(encoding="utf-8"), re.M):
            assert "*derived*" not in source or "[*derived*](../derivations.md#" in source, f"{path.name}: {source}"


def test_every_module_of_the_context_limit_is_on_its_map() -> None:
    said = re.findall(r"``(\w+)``", str(attnlim.context.__doc__))
    assert sorted(said) == sorted(path.stem for path in SOURCES.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", PAGES)
def test_formulas_of_the_pages_can_be_drawn(name: str, root: Path, drawn_formulas: ModuleType) -> None:
    text = page(root, name)
    blocks = re.findall(r"^\$\$\n(.*?)\n\$\$$", text, re.M | re.S)
    assert text.count("$$") == 2 * len(blocks)
    for formula in blocks:
        assert drawn_formulas.formula(formula).startswith('<div class="formula"><svg'), formula


def test_figures_are_those_of_the_script(root: Path, transition_figures: ModuleType) -> None:
    images = {path.stem for path in (root / "docs" / "images").glob("transition-*.svg")}
    assert images == {f"transition-{name}" for name in transition_figures.FIGURES}


@pytest.mark.parametrize("name", ["phases", "laws", "layers"])
def test_closed_form_figures_draw_the_same_bytes(name: str, tmp_path: Path, transition_figures: ModuleType) -> None:
    written = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        written += [path.read_bytes() for path in transition_figures.write(folder, [name])]
    assert written[0] == written[1] and written[0].startswith(b"<?xml")


def test_a_simulated_figure_draws(transition_figures: ModuleType, one_thread: Any) -> None:
    """The quickest of them; what they show is held by the tables and the tests above."""
    figure = transition_figures.FIGURES["causal"]()
    assert all(np.isfinite(axes.dataLim.bounds).all() for axes in figure.axes)
