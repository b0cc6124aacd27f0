"""What the pages on the depth limit say: numbers and tables recomputed, formulas drawn and linked, figures in step."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import typer
from tests.script_modules import script_module

import attnlim.depth
from attnlim.cli.meanfield import QUICK, command
from attnlim.core.checks import InputError
from attnlim.depth import adam_bound_at, limit_particles, limit_training
from attnlim.lab import meanfield
from attnlim.lab.meanfield_grid import make_grid

PAGES = ("depth-limit.md", "meanfield-command.md", "depth-derivations.md")


def page(root: Path, name: str) -> str:
    return (root / "docs" / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def figures(root: Path) -> ModuleType:
    """examples/depth_figures.py as a module; what it computes is kept."""
    return script_module(root / "examples" / "depth_figures.py")


@pytest.fixture
def text(root: Path, one_thread: Any) -> str:
    """The page with its lines joined."""
    return " ".join(page(root, "depth-limit.md").split())


def hold(text: str, *sentences: str) -> None:
    for said in sentences:
        assert said in text, said


def minus(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def test_distance_from_the_identity(text: str, figures: ModuleType) -> None:
    found = figures.identity_numbers()
    hold(text, f"at L = H = 16 its tokens move by {100 * found['many'][16, 16]:.1f} % of their length")
    for size, exact in found["exact"].items():
        # 24 initialisations times 32 tokens of a sequence each, which share the heads: a sixth
        assert found["one"][size] == pytest.approx(exact, rel=1 / 6)
        assert found["many"][size] < exact
    moved = found["moved"]
    assert moved[256, 1] == pytest.approx(found["limit"], rel=0.1), "of 24 initialisations at L = 256"
    assert max(moved.values()) < 1.2 * min(moved.values()), "the control does not come to the identity"


@pytest.mark.parametrize(("head_dim", "width"), [(4, 4), (2, 6)])
def test_the_walk_of_one_token(head_dim: int, width: int) -> None:
    """The formula of the page, with s of Xavier's law: E|O^T V x|² over |x|², by its own moments."""
    bound = math.sqrt(6 / (head_dim + width))
    variance = (2 * bound) ** 2 / 12
    assert width * head_dim * variance**2 == pytest.approx(4 * width * head_dim / (width + head_dim) ** 2)


def test_the_first_step_is_the_same_at_every_depth(figures: ModuleType) -> None:
    system = figures.SYSTEM
    states = limit_training(
        limit_particles(32, 3, 4, 4, shared=True), system.training_inputs(), system.loss(), system.make_optimiser(), 2
    )
    apart = [float((state.particles[0] - state.particles[2]).abs().max()) for state in states]
    # rounding of sums over tokens; then a tenth of a learning rate at least
    assert max(apart[:2]) < 1e-12 and apart[2] > 0.01


def test_layouts(text: str, figures: ModuleType) -> None:
    iid, shared, smooth = (figures.layout_numbers()[name] for name in ("iid", "shared", "smooth"))
    assert figures.LAYOUT_DEPTHS[0] == 4 and figures.LAYOUT_DEPTHS[-1] == 128
    hold(
        text,
        f"From L = 4 to 128 the spread falls from {iid[0]:.2f} to {iid[-1]:.2f} for independent heads. "
        f"It is {shared[0]:.2f} and {shared[-1]:.2f} for shared, {smooth[0]:.2f} and {smooth[-1]:.2f} for smooth ones",
    )
    # of 48 initialisations: a tenth of each spread
    assert figures.slope(iid, figures.LAYOUT_DEPTHS) == pytest.approx(-0.5, abs=0.1)


def test_training(text: str, figures: ModuleType) -> None:
    found = figures.training_numbers()
    means = [found[n_layers][-1, 0].mean() for n_layers in figures.TRAINED]
    update, parameter = 100 * found["certificate"]
    hold(
        text,
        f"The loss after {figures.STEPS} steps, mean over initialisations: {means[0]:.3f} at L = 4, {means[1]:.3f} at 16, "
        f"{means[2]:.3f} at 64, and {found['limit'][0, -1, 0]:.3f} in the limit",
        f"the largest step was {update:.2f} % of its C<sub>t</sub>",
        f"the largest parameter was {parameter:.1f} % of its bound",
    )
    assert adam_bound_at(1, 0.9, 0.999) == 1.0
    one, other = found["limit"][..., 0]
    assert np.abs(one - other).max() < 0.05, "the band is narrow"


def test_both_errors(text: str, figures: ModuleType) -> None:
    noise, split = (figures.error_numbers()[name] for name in ("noise", "split"))
    scaled = [error * math.sqrt(math.prod(size)) for size, error in noise.items()]
    powers = {key: minus(figures.slope(values)) for key, values in split.items()}
    hold(
        text,
        f"The distance from the limit is {figures.noise_constant():.1f}/√(LH) for L = 4 … 256 and H = 1 … 16",
        f"At the start E√(LH) lies between {min(scaled):.1f} and {max(scaled):.1f} for all twelve networks",
        f"with the power {powers[0]} of L at τ = 0",
        f"{powers['mean']} under the law with a mean",
        f"{powers[1]} and {powers[4]} after one and four steps",
    )
    assert len(noise) == 12


def test_martingale(text: str, figures: ModuleType) -> None:
    shares = {}
    for step, parts in figures.stack_numbers().items():
        total = parts["total"]
        # projections sum to the error
        assert sum(parts[name] for name in figures.PARTS) == pytest.approx(total, abs=1e-12)
        shares[step] = {name: 100 * parts[name][-1] / total[-1] for name in figures.PARTS}
    later = shares[4]
    hold(
        text,
        f"the martingale makes {shares[0]['martingale']:.0f} % of the error at t = 1. After four steps it makes "
        f"{later['martingale']:.0f} %, the parameters {later['parameters']:.0f} % and propagation "
        f"{minus(later['propagated'], 0)} %",
    )
    assert all(abs(of["time_shift"]) < 1 for of in shares.values())


def test_adam(text: str, root: Path, figures: ModuleType) -> None:
    raw = page(root, "depth-limit.md")
    begin = raw.index("<!-- printed by: python examples/depth_figures.py --tables -->")
    assert raw[begin:].split("\n\n")[1] == figures.bounds_table()
    hold(text, f"by the factor β_2/β_1 a step, {100 * (0.999 / 0.9 - 1):.0f} % for the usual settings")
    for betas, steps in figures.adam_numbers().items():
        bounds = [adam_bound_at(t, *betas) for t in figures.worst_lengths()]
        assert steps == pytest.approx(bounds, rel=1e-9)


def test_the_trap_of_the_index(text: str, figures: ModuleType) -> None:
    found = figures.shift_numbers()
    assert (found["inside"] == 0).all()
    off = 100 * found["node"]
    hold(text, f"{off[0]:.0f} % of the gradient at L = 4 and {off[-1]:.1f} % at L = 128")


def test_residuals(text: str, figures: ModuleType) -> None:
    deviation, apart = figures.exact_law(1e9, "diffusive")
    assert deviation == pytest.approx(math.sqrt(math.e - 1), rel=1e-6)
    assert apart == pytest.approx(math.sqrt(math.e + math.e**0.5 - 2 * math.e ** (1 / 2**0.5)), rel=1e-5)
    hold(text, f"At H = 1 the limits are {deviation:.2f} and {apart:.2f}.")
    for found in figures.law_numbers().values():
        for name in ("deviation", "split"):
            # 1024 draws with heavy tails
            assert found[name] == pytest.approx(found[f"exact_{name}"], rel=0.1)


def test_the_martingale_s_power(text: str, figures: ModuleType) -> None:
    power = figures.slope(figures.proof_numbers()["noise"], figures.NOISE_DEPTHS)
    ends = figures.NOISE_DEPTHS[0], figures.NOISE_DEPTHS[-1]
    hold(text, f"the martingale falls with the power {minus(power)} of L over L = {ends[0]} … {ends[1]}")


@pytest.mark.parametrize("name", PAGES)
def test_formulas_can_be_drawn(name: str, root: Path, drawn_formulas: ModuleType) -> None:
    text = page(root, name)
    blocks = re.findall(r"^\$\$\n(.*?)\n\$\$$", text, re.M | re.S)
    assert text.count("$$") == 2 * len(blocks)
    for formula in blocks:
        assert drawn_formulas.formula(formula).startswith('<div class="formula"><svg'), formula


def test_every_formula_is_linked_to_its_code(root: Path) -> None:
    """Each section that prints a formula names a function of the package by a link, and every link leads to one."""
    raw = page(root, "depth-limit.md")
    api = page(root, "api/depth.md")
    for section in re.split(r"^## ", raw, flags=re.M):
        linked = re.findall(r"\]\(api/depth\.md#([\w.]+)\)", section)
        assert linked or "$$" not in section, section.splitlines()[0]
        for target in linked:
            assert f"::: {target}\n" in api, target
            assert target.rsplit(".", 1)[1] in attnlim.depth.__all__


def test_figures_are_those_of_the_script(root: Path, figures: ModuleType) -> None:
    images = {path.stem for path in (root / "docs" / "images").glob("depth-*.svg")}
    assert images == {f"depth-{name}" for name in figures.FIGURES}


@pytest.mark.parametrize("name", ["law"])
def test_figures_draw_the_same_bytes(name: str, tmp_path: Path, figures: ModuleType, one_thread: Any) -> None:
    written = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        written += [path.read_bytes() for path in figures.write(folder, [name])]
    assert written[0] == written[1] and written[0].startswith(b"<?xml")


@pytest.mark.parametrize("name", ["identity", "layouts", "training", "errors", "adam", "time", "stack", "proof"])
def test_figures_draw(name: str, figures: ModuleType, one_thread: Any) -> None:
    with torch.no_grad():
        figure = figures.FIGURES[name]()
    assert all(np.isfinite(axes.dataLim.bounds).all() for axes in figure.axes)


def test_options_of_the_manual(root: Path) -> None:
    """Every option of the command is in the table, with the default that the program takes."""
    app = typer.Typer()
    app.command()(command)
    wanted = {parameter.opts[0]: parameter.default for parameter in typer.main.get_command(app).params}
    said = {}
    for names, _, default in re.findall(r"^\| (`--.*?) \| (.*) \|(.*)\|$", page(root, "meanfield-command.md"), re.M):
        options, defaults = re.findall(r"`(--[\w-]+)`", names), default.strip().split(", ")
        said |= dict(zip(options, defaults if len(defaults) == len(options) else len(options) * [default], strict=True))
    assert said.keys() == wanted.keys() - {"--help", "--install-completion", "--show-completion"}
    for name in said.keys() - {"--out", "--overwrite"}:
        if wanted[name] not in (None, False):
            number = f"{wanted[name]:g}" if isinstance(wanted[name], float) else str(wanted[name])
            assert said[name].strip() == number, name
    # those that depend on --quick are told as they are without it
    grid = make_grid()
    for name, values in (("--layers", grid.n_layers), ("--heads", grid.n_heads), ("--steps", grid.system.steps)):
        assert said[name].strip() == ",".join(map(str, values))
    quick = f"`--quick` alone takes L = {QUICK['layers'].split(',')[0]} … {QUICK['layers'].split(',')[-1]}"
    text = " ".join(page(root, "meanfield-command.md").split())
    assert f"{quick}, H = 1 and 4, τ = 0 and 2, and {QUICK['particles']} particles" in text
    assert (QUICK["heads"], QUICK["steps"]) == ("1,4", "0,2")


def test_variables_of_the_manual(root: Path, one_thread: Any) -> None:
    found = meanfield([2, 4], [1], steps=[0], n_inits=2, n_particles=8, n_fresh=2, n_sequences=1)
    text = page(root, "meanfield-command.md")
    table = text[text.index("### Variables of the dataset") :]
    said = {}
    for line in re.findall(r"^\| (`.*) \| (.*) \| .* \|$", table, re.M):
        names = re.findall(r"`(\w+)`", line[0])
        ends = [""] + [name for name in names if name.startswith("_")]
        single = [name for name in names if name.startswith(("_", "fit_residual"))]
        dims = line[1].replace("NETWORK", "SYSTEM, n_layers, n_heads").replace("SYSTEM", "seed, n_tokens, width")
        for name in names:
            if name not in single:
                said |= {name + end: tuple(dims.split(", ")) for end in ends}
        said |= {name: tuple(dims.split(", ")) for name in single if not name.startswith("_")}
    assert said == {str(name): values.dims for name, values in found.data_vars.items()}


def test_a_diverging_run_of_the_manual(root: Path, one_thread: Any) -> None:
    with pytest.raises(InputError) as refused:
        meanfield(
            [4], [1], steps=[0, 1], n_inits=2, n_particles=64, optimiser="sgd", lr=100.0, weight_decay=0.0, n_fresh=2
        )
    text = " ".join(page(root, "meanfield-command.md").split())
    # the number itself is that of a run with more inputs
    assert all(part in text for part in re.split(r"by \S+ parameters", str(refused.value)))
