"""The dataset of ``attnlim reproduce uniform``: one flat dataset of kind ``attnlim.reproduce.uniform``.

Attributes: ``kind``, ``verdict`` (text, a paragraph a line), ``size`` (text), ``seed``, ``dtype``, ``grids`` (names). NaN
is what is not known. Axes in brackets.

Grids are mean-field experiments (see :mod:`attnlim.report.meanfield_reading`) of one seed each. A variable, coordinate or
dimension NAME of the grid GRID is called ``GRID.NAME``; :func:`of_grid` undoes that. They are ``rates``; ``training``, to
a distant target; ``worst``, with the inputs "worst"; ``eps``, with a large eps of AdamW; ``tokens`` over N;
``widths-adamw`` and ``widths-blockwise`` over d; ``inputs-LAW`` for each law of the inputs; ``gamma-GAMMA`` over N with
β = γ ln N. The training grid holds root mean squares of the entries of each matrix over t as well: ``law_limit`` [step,
law_node, matrix] and ``law_network`` [step, law_layer, matrix], of its largest network, where ``law_node`` and
``law_layer`` are places t and ``matrix`` is text.

Parts, which are no grids:

- ``split_error`` [split_law, split_layers, split_step, split_init]: distance of (2L, 1) and (L, 2) of the same heads, for
  the laws "xavier" and "off-centre"; the second is measured before training alone
- ``stack_part`` [stack_layers, stack_heads, stack_step, part, stack_t]: root mean square of each part of the error, where
  ``part`` is text; ``stack_martingale`` [stack_layers, stack_heads, stack_step, stack_init]: sup of |M|
- ``stability_ratio`` [weight_decay, stability_step, stability_lemma] and ``stability_largest`` [weight_decay,
  stability_step], of |θ|; ``stability_lemma`` is text: "parameters", "depth", "gradients"
- ``layouts_deviation`` [layout, layout_layers]: standard deviation of X_1 with one head a layer; ``layout`` is text
- ``law_deviation``, ``law_deviation_error`` [regime, law_depth]: the same of the text ``regime``, with standard errors
- ``validation_error`` [validation_draw, validation_layers, validation_hidden, validation_step, repetition] and
  ``validation_noise`` [validation_draw, validation_step], of its reference
- ``focus_rho_hat`` [focus_gamma, focus_tokens, focus_step, focus_depth], ``focus_entropy`` [focus_gamma, focus_tokens,
  focus_step, focus_layer], in nats
- ``growth_plain``, ``growth_normed``, ``growth_ceiling`` [state_scale]: the largest token without and with post-norm, and
  its bound; ``maps_ratio``, ``maps_bound`` [reach, power]: Lipschitz ratios of γ in W_p over R|z|

The claims, on ``claim``: see :mod:`attnlim.report.claim_rows`.
"""

from __future__ import annotations

import xarray as xr

from attnlim.core.checks import InputError
from attnlim.report.claim_rows import CLAIM_SCHEMA
from attnlim.report.meanfield_reading import NETWORK, SYSTEM

KIND = "attnlim.reproduce.uniform"
_DISTANCE = (*NETWORK, "step", "inputs", "init")
_OWN = {"sup_tokens": _DISTANCE, "rms_tokens": _DISTANCE, "reference_error": (*SYSTEM, "distance", "step", "inputs")}
_TRAINING = {
    "loss": (*NETWORK, "training_step", "init"),
    **dict.fromkeys(("limit_loss", "limit_loss_error"), (*SYSTEM, "training_step")),
    "law_limit": ("step", "law_node", "matrix"),
    "law_network": ("step", "law_layer", "matrix"),
}
_RATES = {
    "coupling_average": (*NETWORK, "step", "init"),
    **{f"fit_{name}{end}": (*SYSTEM, "step", "inputs") for name in ("c1", "c2", "p", "q") for end in ("", "_low", "_high")},
    **dict.fromkeys(("rate_residual", "rate_excess_high"), (*SYSTEM, "step", "inputs", "rate")),
}  # fmt: skip
_NEEDED: dict[str, dict[str, tuple[str, ...]]] = {
    "rates": _OWN | _RATES,
    "training": _OWN | _TRAINING,
    "worst": _OWN,
    "eps": {"coupling_average": (*NETWORK, "step", "init")},
    **dict.fromkeys(("tokens", "widths-adamw", "widths-blockwise"), _OWN),
}
_SCHEMA = {
    "split_error": ("split_law", "split_layers", "split_step", "split_init"),
    "stack_part": ("stack_layers", "stack_heads", "stack_step", "part", "stack_t"),
    "stack_martingale": ("stack_layers", "stack_heads", "stack_step", "stack_init"),
    "stability_ratio": ("weight_decay", "stability_step", "stability_lemma"),
    "stability_largest": ("weight_decay", "stability_step"),
    "layouts_deviation": ("layout", "layout_layers"),
    **dict.fromkeys(("law_deviation", "law_deviation_error"), ("regime", "law_depth")),
    "validation_error": ("validation_draw", "validation_layers", "validation_hidden", "validation_step", "repetition"),
    "validation_noise": ("validation_draw", "validation_step"),
    "focus_rho_hat": ("focus_gamma", "focus_tokens", "focus_step", "focus_depth"),
    "focus_entropy": ("focus_gamma", "focus_tokens", "focus_step", "focus_layer"),
    **dict.fromkeys(("growth_plain", "growth_normed", "growth_ceiling"), ("state_scale",)),
    **dict.fromkeys(("maps_ratio", "maps_bound"), ("reach", "power")),
    **CLAIM_SCHEMA,
}
_ATTRIBUTES = ("verdict", "size", "seed", "dtype", "grids")


def checked(dataset: xr.Dataset) -> xr.Dataset:
    """``dataset`` if it holds all that the sheets and the table of claims need.

    Raises:
        InputError: a missing grid or variable, other dimensions than documented, or a missing attribute.
    """
    missing = [name for name in _ATTRIBUTES if name not in dataset.attrs]
    schema = dict(_SCHEMA)
    for grid in (*_NEEDED, *varying(dataset, "inputs"), *varying(dataset, "gamma")):
        schema |= {f"{grid}.{name}": _of(grid, dims) for name, dims in _NEEDED.get(grid, _OWN).items()}
    wrong = [name for name, dims in schema.items() if name not in dataset or set(dataset[name].dims) != set(dims)]
    wrong += [f"a grid {start}-…" for start in ("inputs", "gamma") if not varying(dataset, start)]
    wrong += [f"the attribute {name}" for name in missing]
    if wrong:
        raise InputError(
            f"the reproduction lacks, or has with other dimensions, {', '.join(wrong)}; "
            "run `attnlim reproduce uniform` again"
        )
    return dataset


def _of(grid: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{grid}.{name}" for name in names)


def varying(dataset: xr.Dataset, start: str) -> dict[str, str]:
    """The grids whose names begin with ``start-``, with what follows it.

    >>> varying(xr.Dataset(attrs={"grids": ["rates", "gamma-0.5", "gamma-1"]}), "gamma")
    {'gamma-0.5': '0.5', 'gamma-1': '1'}
    """
    names = [str(name) for name in dataset.attrs.get("grids", [])]
    return {name: name.removeprefix(f"{start}-") for name in names if name.startswith(f"{start}-")}


def of_grid(dataset: xr.Dataset, grid: str) -> xr.Dataset:
    """One grid of a reproduction by the names of a mean-field experiment, of its one seed."""
    names = [str(name) for name in (*dataset.variables, *dataset.dims)]
    # the last dot: a grid's own name may hold one
    own = {name: name.rpartition(".")[2] for name in names if name.rpartition(".")[0] == grid}
    found = dataset.drop_vars([name for name in dataset.variables if name not in own]).drop_attrs(deep=False)
    return found.rename(own).isel(seed=0)


def own_error(one: xr.Dataset, name: str = "sup_tokens", inputs: str = "fresh") -> xr.DataArray:
    """The limit's own error in a distance."""
    place = one["distance"].to_numpy().tolist().index(name)
    return one["reference_error"].sel(inputs=inputs).isel(distance=place, drop=True)


def when(step: int) -> str:
    """
    >>> when(0), when(1), when(4)
    ('before training', 'after 1 step', 'after 4 steps')
    """
    return "before training" if step == 0 else f"after {step} step{'s' if step != 1 else ''}"


def facts(dataset: xr.Dataset) -> str:
    """One line on what was measured."""
    attrs, rates = dataset.attrs, of_grid(dataset, "rates")
    layers, heads = rates["n_layers"].to_numpy(), rates["n_heads"].to_numpy()
    return (
        f"size {attrs['size']} · L = {layers.min()} to {layers.max()} · H = {heads.min()} to {heads.max()} "
        f"· N = {rates['n_tokens'].item()}, d = {rates['width'].item()} where they do not vary "
        f"· {rates.sizes['init']} initialisations · seed {attrs['seed']} · {attrs['dtype']}"
    )
