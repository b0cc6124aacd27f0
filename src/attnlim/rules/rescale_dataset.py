"""From losses and needles of every variant to the comparison's dataset: buckets, paired differences, intervals."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from attnlim.core.block_bootstrap import block_bootstrap_mean
from attnlim.core.cells import Arrays
from attnlim.core.intervals import IntervalArray, jackknife_mean
from attnlim.rules.slope_steps import Shrunk
from attnlim.rules.variants import Variant

if TYPE_CHECKING:
    from attnlim.rules.rescale_plan import Plan

KIND = "attnlim.rescale"
# neighbouring losses hang together over a sentence or two; short windows take shorter blocks, to have some
LONGEST_BLOCK, BLOCKS_WITHIN = 256, 16
WITHIN, BEYOND = "within", "beyond"


@dataclass
class Course:
    """How a constant and the slopes were chosen.

    Attributes:
        names: what was tried on the set to stop on, in order.
        losses: of each, mean beyond the trained length, nats.
        constant: the factor that was best; NaN where none was tried.
        shared_slope: the slope of all heads that was best, per nat; NaN without a calibration.
        taken: the steps that were taken.
        begun: the start that was best.
        derivatives: one (n_windows, n_layers, n_heads) a round, nats per unit of slope.
        directions: what they were shrunk to.
        slope: (n_layers, n_heads) at the end, per nat; None without a calibration.
    """

    names: list[str] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    constant: float = math.nan
    shared_slope: float = math.nan
    taken: list[str] = field(default_factory=list)
    begun: str = ""
    derivatives: list[NDArray[np.float64]] = field(default_factory=list)
    directions: list[Shrunk] = field(default_factory=list)
    slope: NDArray[np.float64] | None = None

    def note(self, name: str, nll: NDArray[np.float64], trained: int) -> float:
        """Keep and return the mean loss beyond the trained length of what was tried."""
        loss = float(np.nanmean(nll[:, trained:]))
        self.names.append(name)
        self.losses.append(loss)
        return loss

    def derived(self, windows: NDArray[np.float64], direction: Shrunk) -> None:
        """Keep what a round measured."""
        self.derivatives.append(windows)
        self.directions.append(direction)


@dataclass
class Tested:
    """What was measured of every variant.

    Attributes:
        variants: in the order of the tables.
        nll: by variant and window.
        needles: by variant and company.
    """

    variants: Sequence[Variant]
    nll: dict[tuple[str, int], NDArray[np.float64]] = field(default_factory=dict)
    needles: dict[tuple[str, str], Arrays] = field(default_factory=dict)

    def put(self, arguments: Mapping[str, Any], arrays: Arrays) -> None:
        """Take one cell's arrays."""
        if arguments["kind"] == "needles":
            self.needles[arguments["name"], arguments["company"]] = arrays
        else:
            self.nll[arguments["name"], arguments["window"]] = arrays["nll"]


def buckets(trained: int, target: int) -> dict[str, tuple[int, int]]:
    """Stretches of positions: halves of the trained length up to the target, and what lies within and beyond it.

    >>> buckets(8192, 16384)["8192–12288"], buckets(8192, 10000)["beyond"]
    ((8192, 12288), (8192, 10000))
    """
    half = max(1, trained // 2)
    edges = [0, half, *range(trained, target, half), target]
    found = {f"{low}–{high}": (low, high) for low, high in itertools.pairwise(edges)}
    return {**found, WITHIN: (0, trained), BEYOND: (trained, target)}


def pair(data: xr.Dataset, name: str, base: str, bucket: str, level: float = 0.95) -> IntervalArray:
    """How much more loss one variant has than another in a bucket, paired token by token, nats a token."""
    at = data.sel(bucket=bucket)
    low, high = int(at["bucket_begins"]), int(at["bucket_ends"])
    nll = data["nll"].isel(position=slice(low, high)).astype(np.float64)
    apart = (nll.sel(variant=name) - nll.sel(variant=base)).values
    return block_bootstrap_mean(apart, data.attrs["block"], data.attrs["seed"], level=level)


def assemble(plan: Plan, tested: Tested, course: Course) -> xr.Dataset:
    """The dataset of a comparison.

    Losses are compared token by token with "none" of the same window, so that what makes a text hard cancels; the
    intervals are those of :func:`~attnlim.core.block_bootstrap.block_bootstrap_mean`. Needles are the units of theirs.

    Args:
        plan: what was run.
        tested: what was measured.
        course: how the fitted variants came about.

    Returns:
        Over variants, windows, positions, buckets, needles, layers and heads.
    """
    names = [variant.name for variant in tested.variants]
    n_windows = len(plan.windows["test"])
    nll = np.stack([[tested.nll[name, w] for w in range(n_windows)] for name in names])
    places = buckets(plan.trained, plan.target)
    block = max(1, min(LONGEST_BLOCK, plan.trained // BLOCKS_WITHIN))
    variables: dict[str, Any] = {"nll": (("variant", "window", "position"), nll, _nats("loss of a token"))}
    base = nll[names.index("none")]
    for name, values, meaning in (
        ("bucket_nll", nll, "mean loss"),
        ("difference", nll - base, "mean loss less that of none"),
        ("difference_raw", nll - nll[names.index("raw")], "mean loss less that of raw extrapolation"),
    ):
        _put_buckets(variables, name, values, places, block, plan.seed, meaning)
    _put_needles(variables, plan, tested, names)
    _put_course(variables, course)
    variables["multiplier"] = (
        ("variant", "layer", "head"),
        np.stack([_multiplier(variant, plan) for variant in tested.variants]),
        {"long_name": "factor on the logits of the last position", "units": "dimensionless"},
    )
    for name, values in plan.heads.items():
        variables[f"audit_{name}"] = (("layer", "head"), values)
    return xr.Dataset(
        variables,
        coords={
            "variant": _words(names),
            "layer": np.arange(plan.shape[0]),
            "head": np.arange(plan.shape[1]),
            "words": ("variant", _words(variant.words for variant in tested.variants)),
            "bucket": _words(places),
            "bucket_begins": ("bucket", [low for low, _ in places.values()]),
            "bucket_ends": ("bucket", [high for _, high in places.values()]),
        },
        attrs={
            "kind": KIND,
            "block": block,
            **({"constant": course.constant} if plan.constants else {}),
            **({"shared_slope": course.shared_slope} if plan.starts else {}),
            "begun": course.begun,
            "taken": json.dumps(course.taken, ensure_ascii=False),
            **plan.attributes,
        },
    )


def _put_buckets(
    variables: dict[str, Any],
    name: str,
    values: NDArray[np.float64],
    places: Mapping[str, tuple[int, int]],
    block: int,
    seed: int,
    meaning: str,
) -> None:
    """Means of (variant, window, position) in each bucket, with intervals."""
    found = [block_bootstrap_mean(values[..., low:high], block, seed) for low, high in places.values()]
    for suffix, attribute in (("", "estimate"), ("_low", "low"), ("_high", "high"), ("_se", "standard_error")):
        stacked = np.stack([getattr(one, attribute) for one in found], axis=1)
        variables[f"{name}{suffix}"] = (("variant", "bucket"), stacked, {**_nats(meaning), "method": found[0].method})


def _put_needles(variables: dict[str, Any], plan: Plan, tested: Tested, names: Sequence[str]) -> None:
    def gather(name: str) -> NDArray[Any]:
        return np.stack([np.concatenate([tested.needles[one, company][name] for company in plan.hay]) for one in names])

    every = [needle for hay in plan.hay.values() for needle in hay.needles]
    nll = gather("nll")
    variables["needle_company"] = ("needle", _words(needle.company for needle in every))
    variables["needle_depth"] = ("needle", [needle.depth for needle in every])
    variables["needle_nll"] = (("variant", "needle"), nll, _nats("loss of a needle's number"))
    variables["needle_found"] = (
        ("variant", "needle"),
        gather("found"),
        {"long_name": "every token of it was the likeliest"},
    )
    variables["needle_mass"] = (
        ("variant", "needle", "layer", "head"),
        gather("mass").astype(np.float32),
        {"long_name": "attention on the needle where it is asked for", "units": "dimensionless"},
    )
    change = jackknife_mean(nll - nll[names.index("none")], axis=1)
    for suffix, values in (("", change.estimate), ("_low", change.low), ("_high", change.high)):
        about = {**_nats("mean loss of needles less that of none"), "method": change.method}
        variables[f"needle_difference{suffix}"] = ("variant", values, about)


def _put_course(variables: dict[str, Any], course: Course) -> None:
    if course.names:
        variables["tried_loss"] = (
            "tried",
            course.losses,
            _nats("mean loss beyond the trained length, on text to stop on"),
        )
        variables["tried_name"] = ("tried", _words(course.names))
    if course.slope is None:
        return
    about = {"long_name": "slope of the factor in ln n", "units": "1/nat"}
    variables["slope"] = (("layer", "head"), course.slope, about)
    derivative = {"long_name": "derivative of the loss by the slope", "units": "nats per unit of slope"}
    variables["derivative"] = (("round", "fit_window", "layer", "head"), np.stack(course.derivatives), derivative)
    shrunk = np.stack([one.gradient for one in course.directions])
    variables["direction"] = (("round", "layer", "head"), shrunk, derivative)
    for name in ("towards_layer", "towards_model", "noise"):
        variables[name] = ("round", [getattr(one, name) for one in course.directions])


def _multiplier(variant: Variant, plan: Plan) -> NDArray[np.float64]:
    """(n_layers, n_heads) on the logits of the last position; rotary dimensions where cos and sin are scaled.

    A layer with a window sees no more keys than it holds; one without softmax attention has no logits, and NaN.
    """
    last = plan.target - 1
    factors = np.full(plan.shape, np.nan)
    for number, layer in enumerate(plan.layers):
        if layer.softmax:
            query = np.asarray(variant.rule.parts(last, layer.keys_at(last), number).query)
            turned = variant.cos_sin**2 if layer.rotary else 1.0
            factors[number] = np.broadcast_to(query, plan.shape[1:]) * turned
    return factors


def _words(values: Iterable[str]) -> NDArray[Any]:
    """As objects: Zarr has no specification of fixed-width strings yet."""
    return np.array(list(values), dtype=object)


def _nats(meaning: str) -> dict[str, str]:
    return {"long_name": meaning, "units": "nats"}
