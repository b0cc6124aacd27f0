"""From the arrays of every cell to the dataset of the reproduction, without its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from attnlim.core.cells import Arrays
from attnlim.lab import meanfield_dataset, uniform_parts
from attnlim.lab.uniform_tasks import DEPTHS, DRAWS, STACK_STEPS, reference_key, results_of
from attnlim.lab.uniform_validation import KEPT

if TYPE_CHECKING:
    from attnlim.lab.uniform_run import UniformReproduction

KIND = "attnlim.reproduce.uniform"


def assemble(plan: UniformReproduction, results: Mapping[str, Arrays]) -> xr.Dataset:
    """The evidence: every grid under its own name, and the parts.

    A variable, coordinate or dimension ``NAME`` of the grid ``GRID`` is called ``GRID.NAME``; :func:`of_grid` undoes that.

    Args:
        plan: what was measured.
        results: the arrays of every cell by its key.
    """
    size = plan.size
    dataset = xr.Dataset(
        attrs={
            "kind": KIND,
            "verdict": "",
            "size": size.name,
            "seed": plan.seed,
            "dtype": "float64",
            "grids": list(plan.grids()),
        }
    )
    for name, grid in plan.grids().items():
        one = meanfield_dataset.assemble(grid, results_of(name, grid, results))
        if "training" in name:
            one = one.assign(_laws(grid, results_of(name, grid, results)))
        one = one.rename(
            {old: f"{name}.{old}" for old in (*one.variables, *one.dims) if old in one.variables or old in one.dims}
        )
        dataset = xr.merge([dataset, one.drop_attrs(deep=False)], combine_attrs="override")
    return dataset.assign(_evidence(plan, results)).assign_coords(_coordinates(plan))


def of_grid(dataset: xr.Dataset, name: str) -> xr.Dataset:
    """One grid of a reproduction, with the names of a mean-field experiment."""
    start = f"{name}."
    variables = [str(one) for one in dataset.variables if str(one).rpartition(".")[0] == name]
    found = dataset[[one for one in variables if one not in dataset.coords]]
    found = found.drop_vars([one for one in found.coords if str(one).rpartition(".")[0] != name])
    return found.rename({str(one): str(one).removeprefix(start) for one in (*found.variables,)})


def _laws(grid: Any, results: Mapping[str, Arrays]) -> dict[str, Any]:
    """Root mean squares of the entries of Q, K, V, O over t: of the limit at its nodes, of the deepest widest network."""
    from attnlim.depth import gauss_nodes
    from attnlim.lab.meanfield_grid import limit_key, network_key

    system = grid.systems()[0]
    n_layers, n_heads = grid.sizes()[-1]
    return {
        "law_limit": (("step", "law_node", "matrix"), results[limit_key(system, "a")]["matrix_rms"]),
        "law_network": (("step", "law_layer", "matrix"), results[network_key(system, n_layers, n_heads)]["matrix_rms"]),
        "law_node": gauss_nodes(system.n_nodes).t,
        "law_layer": np.arange(n_layers) / n_layers,
        "matrix": np.array(["query", "key", "value", "output"], dtype=object),
    }


def _evidence(plan: UniformReproduction, results: Mapping[str, Arrays]) -> dict[str, Any]:
    size = plan.size

    def gathered(part: str, axes: Mapping[str, Sequence[Any]], key: str, inner: Mapping[str, tuple[str, ...]]) -> Any:
        """Every array of a part, with a dimension for each axis by which its cells differ, then those inside a cell."""
        lengths = tuple(len(values) for values in axes.values())
        found: dict[str, np.ndarray] = {}
        for place in np.ndindex(lengths):
            told = {name: values[i] for (name, values), i in zip(axes.items(), place, strict=True)}
            for name in inner:
                values = results.get(key.format(**told), {}).get(name)
                if values is None:  # a size beyond the largest product
                    continue
                found.setdefault(name, np.full((*lengths, *values.shape), np.nan))[place] = values
        return {f"{part}_{name}": ((*axes, *inner[name]), values) for name, values in found.items()}

    checks: dict[str, dict[str, tuple[str, ...]]] = {
        "bound": {"attained": ("betas",), "limit": ("betas",)},
        "maps": {"difference": (), "ratio": ("reach", "power"), "bound": ("reach", "power"), "drift": ("scale", "drift_ratio")},
        "growth": {"slope": ("matrix",), **dict.fromkeys(("plain", "normed", "ceiling"), ("state_scale",))},
        "layouts": {"deviation": ("layout", "layout_layers")},
    }  # fmt: skip
    found: dict[str, Any] = {}
    for part, inner in checks.items():
        found |= gathered(part, {}, f"checks.{part}", inner)
    found |= gathered(
        "split", {"split_law": ("xavier", "off-centre"), "split_layers": size.split_layers},
        "split.{split_law}-L{split_layers}", {"error": ("split_step", "split_init")},
    )  # fmt: skip
    found |= gathered(
        "stack", {"stack_layers": size.stack_layers, "stack_heads": size.stack_heads},
        "stack.L{stack_layers}-H{stack_heads}",
        {
            "part": ("stack_step", "part", "stack_t"), "martingale": ("stack_step", "stack_init"),
            **dict.fromkeys(("doob", "score", "rest"), ("stack_step",)),
        },
    )  # fmt: skip
    found |= gathered(
        "stability", {"weight_decay": [f"{decay:g}" for decay in uniform_parts.DECAYS]}, "stability.decay{weight_decay}",
        {"ratio": ("stability_step", "stability_lemma"), "largest": ("stability_step",)},
    )  # fmt: skip
    found |= gathered(
        "law", {"regime": ("diffusive", "mean-field")}, "checks.{regime}",
        dict.fromkeys(("deviation", "deviation_error", "mean_score", "apart"), ("law_depth",)),
    )  # fmt: skip
    found |= gathered(
        "focus", {"focus_gamma": [f"{gamma:g}" for gamma in size.gammas], "focus_tokens": size.growing_tokens},
        "focus.gamma{focus_gamma}-N{focus_tokens}",
        {"rho_hat": ("focus_step", "focus_depth"), "entropy": ("focus_step", "focus_layer")},
    )  # fmt: skip
    found |= gathered(
        "validation",
        {
            "validation_draw": DRAWS, "validation_layers": size.validation_layers,
            "validation_hidden": size.validation_layers,
        },
        "validation.draw{validation_draw}-L{validation_layers}-M{validation_hidden}", {"error": ("validation_step", "repetition")},
    )  # fmt: skip
    for name in ("noise", "discretisation"):
        each = [results[reference_key(draw)][name][list(KEPT)] for draw in DRAWS]
        found[f"validation_{name}"] = (("validation_draw", "validation_step"), np.stack(each))
    return found


def _coordinates(plan: UniformReproduction) -> dict[str, Any]:
    size = plan.size

    def words(values: Sequence[str]) -> np.ndarray:
        return np.array(values, dtype=object)

    return {
        "betas": words([f"{one:g}, {two:g}" for one, two in uniform_parts.BETAS]),
        "reach": list(uniform_parts.MAP_REACH),
        "power": list(uniform_parts.MAP_POWER),
        "scale": list(uniform_parts.DRIFT_SCALES),
        "matrix": words(["query", "key", "value", "output"]),
        "state_scale": list(uniform_parts.STATE_SCALES),
        "layout": words(uniform_parts.LAYOUTS),
        "layout_layers": list(uniform_parts.LAYOUT_LAYERS),
        "split_law": words(["xavier", "off-centre"]),
        "split_layers": list(size.split_layers),
        "split_step": list(uniform_parts.SPLIT_STEPS),
        "stack_layers": list(size.stack_layers),
        "stack_heads": list(size.stack_heads),
        "stack_step": [0, STACK_STEPS],
        "part": words(uniform_parts.PARTS),
        "stack_t": uniform_parts.STACK_T,
        "weight_decay": list(uniform_parts.DECAYS),
        "stability_lemma": words(["parameters", "depth", "gradients"]),
        "regime": words(["diffusive", "mean-field"]),
        "law_depth": list(DEPTHS),
        "focus_gamma": list(size.gammas),
        "focus_tokens": list(size.growing_tokens),
        "focus_step": list(uniform_parts.FOCUS_STEPS),
        "validation_draw": list(DRAWS),
        "validation_layers": list(size.validation_layers),
        "validation_hidden": list(size.validation_layers),
        "validation_step": list(KEPT),
    }
