"""The dataset of ``attnlim rescale``: one flat dataset of kind ``attnlim.rescale``, and what page and sheet read of it.

Attributes: ``verdict`` (text, a paragraph a line, what to take last), ``recommended`` (a variant), ``begun`` (where the
calibration began), ``taken`` (its steps as a JSON list), ``trained_length`` and ``target`` in tokens, ``windows`` (of the
texts to calibrate, to stop and to test), and what is shown as provenance. NaN is what is not known. Axes in brackets.

- coordinates ``variant`` (``raw`` and ``none`` are among them) with ``words``, ``bucket`` (stretches of positions, then
  ``within`` and ``beyond``) with ``bucket_begins`` and ``bucket_ends``, ``layer``, ``head``
- ``bucket_nll``, ``difference`` (from none), ``difference_raw`` [variant, bucket], each with _low, _high and _se: nats a token
- ``needle_company``, ``needle_depth`` [needle]; ``needle_nll``, ``needle_found`` [variant, needle]; ``needle_difference``
  [variant] from none with _low and _high: nats a number; ``needle_mass`` [variant, needle, layer, head]
- ``multiplier`` [variant, layer, head]: the factor on the logits of the last position
- where something was chosen: ``tried_name``, ``tried_loss`` [tried]
- of a calibration: ``slope`` [layer, head], ``derivative`` [round, fit_window, layer, head], ``direction`` (shrunk)
  [round, layer, head], ``towards_layer``, ``towards_model``, ``noise`` [round]
- of an audit: ``audit_phase`` (its code, -1 without one), ``audit_kappa``, ``audit_critical_multiplier`` [layer, head]
"""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from attnlim.core.checks import InputError

KIND, SCHEMA = "attnlim.rescale", 1
RAW, NONE, CALIBRATED = "raw", "none", "calibrated"
WITHIN, BEYOND = "within", "beyond"
ENDS = ("", "_low", "_high")
LOSSES = ("bucket_nll", "difference", "difference_raw")

_BUCKETS, _HEADS = ("variant", "bucket"), ("layer", "head")
_NEEDED = {
    **{f"{name}{end}": _BUCKETS for name in LOSSES for end in (*ENDS, "_se")},
    **dict.fromkeys(("needle_company", "needle_depth"), ("needle",)),
    **dict.fromkeys(("needle_nll", "needle_found"), ("variant", "needle")),
    **{f"needle_difference{end}": ("variant",) for end in ENDS},
    "needle_mass": ("variant", "needle", *_HEADS),
    "multiplier": ("variant", *_HEADS),
}
_CALIBRATION = {
    "slope": _HEADS,
    "derivative": ("round", "fit_window", *_HEADS),
    "direction": ("round", *_HEADS),
    **dict.fromkeys(("towards_layer", "towards_model", "noise"), ("round",)),
}
_TRIED = dict.fromkeys(("tried_name", "tried_loss"), ("tried",))
_AUDIT = dict.fromkeys(("audit_phase", "audit_kappa", "audit_critical_multiplier"), _HEADS)
_COORDINATES = ("variant", "words", "bucket", "bucket_begins", "bucket_ends", *_HEADS)
_ATTRIBUTES = (
    *(
        "verdict",
        "recommended",
        "begun",
        "taken",
        "trained_length",
        "target",
        "model",
        "model_note",
        "texts",
        "windows",
    ),
    *("block", "seed", "per"),
)
# an interval that reaches so many times further than the usual one would leave the others no room on its scale
_FAR = 5.0


class Tried(NamedTuple):
    """Something that was tried on the text to stop on."""

    name: str
    loss: float  # nats a token beyond the trained length
    part: str  # constant, start or step
    taken: bool


def checked(dataset: xr.Dataset) -> xr.Dataset:
    """``dataset`` if it holds all that the sheet and the page need.

    Raises:
        InputError: another schema, a missing variable, other dimensions than documented, or a missing attribute.
    """
    if dataset.attrs.get("schema", SCHEMA) != SCHEMA:
        raise InputError(
            f"the report draws comparisons of schema {SCHEMA}, got schema {dataset.attrs['schema']}; "
            "run `attnlim rescale` again with this version"
        )
    wrong = [f"the coordinate {name}" for name in _COORDINATES if name not in dataset.coords]
    expected = dict(_NEEDED)
    for group in (_CALIBRATION, _TRIED, _AUDIT):
        if any(name in dataset for name in group):
            expected |= group
    wrong += [name for name, dims in expected.items() if name not in dataset or set(dataset[name].dims) != set(dims)]
    wrong += [f"the attribute {name}" for name in _ATTRIBUTES if name not in dataset.attrs]
    if not wrong:
        wanted = {"variant": (RAW, NONE, dataset.attrs["recommended"]), "bucket": (WITHIN, BEYOND)}
        for name, ones in wanted.items():
            known = dataset[name].to_numpy().tolist()
            wrong += [f"the {name} {one!r}" for one in dict.fromkeys(ones) if one not in known]
    if wrong:
        raise InputError(
            f"the comparison of rules lacks, or has with other dimensions, {', '.join(wrong)}; run `attnlim rescale` again"
        )
    return dataset.transpose("variant", "bucket", "round", "fit_window", "needle", *_HEADS, ..., missing_dims="ignore")


def facts(dataset: xr.Dataset) -> str:
    """One line on what was measured: the lengths, the precision, the text and how much of it."""
    attrs = dataset.attrs
    trained, target = int(attrs["trained_length"]), int(attrs["target"])
    sets = [f"{n} to {name}" for n, name in zip(attrs["windows"], ("calibrate", "stop", "test"), strict=True) if n]
    return (
        f"trained to {trained} tokens, target {target} ({target / trained:g} ×) · {attrs['dtype']} · text: {', '.join(attrs['texts'])}, "
        f"windows {', '.join(sets)} · {dataset.sizes['needle']} needles · seed {attrs['seed']}"
    )


def names_of(dataset: xr.Dataset) -> list[str]:
    """The variants, in the order of the tables."""
    return [str(name) for name in dataset["variant"].to_numpy()]


def stretches(dataset: xr.Dataset) -> xr.Dataset:
    """The stretches of positions alone, in ascending order."""
    chosen = [str(name) not in (WITHIN, BEYOND) for name in dataset["bucket"].to_numpy()]
    return dataset.isel(bucket=np.flatnonzero(chosen)).sortby("bucket_begins")


def scale_ends(estimate: ArrayLike, low: ArrayLike, high: ArrayLike) -> tuple[float, float]:
    """The ends of a scale that holds 0 and the intervals, but for losses more than five times the median difference above 0.

    Without the exception, positions beyond the trained length without any help, which can cost nats where rules differ by
    hundredths, would leave all others on one spot. What is better than the rule compared with is never left out.

    >>> scale_ends([-0.2, 0.0, 0.1, 9.0], [-0.3, 0.0, np.nan, 8.0], [-0.1, 0.0, np.nan, 10.0])
    (-0.3, 0.1)
    """
    ends = np.stack([np.asarray(one, dtype=np.float64).ravel() for one in (estimate, low, high)])
    ends = ends[:, np.isfinite(ends).any(axis=0)]
    reach = np.nanmax(np.abs(ends), axis=0) if ends.size else np.zeros(0)
    if not (reach > 0).any():
        return -1.0, 1.0
    usual = float(np.quantile(reach[reach > 0], 0.5, method="lower"))
    near = ends[:, reach <= max(_FAR * usual, -float(np.nanmin(ends)))]
    return min(0.0, float(np.nanmin(ends))), max(0.0, float(np.nanmax(near)))


def calibrated_slopes(dataset: xr.Dataset) -> xr.DataArray | None:
    """The slopes [layer, head], NaN for heads that had no derivative: of a layer with a window, which never sees further than the
    trained length, or without softmax attention. None without a calibration."""
    if "slope" not in dataset:
        return None
    return dataset["slope"].where(np.isfinite(dataset["direction"].isel(round=0)))


def mass_on_needles(dataset: xr.Dataset, company: str | None = None) -> xr.DataArray:
    """Mean attention on the needles [variant, layer, head]; of one company's alone where it is named."""
    mass = dataset["needle_mass"]
    if company is not None:
        mass = mass.isel(needle=np.flatnonzero(dataset["needle_company"].to_numpy() == company))
    return mass.astype(np.float64).mean("needle", skipna=False)


def companies(dataset: xr.Dataset) -> list[str]:
    """The kinds of company that needles have, in the order of the dataset."""
    return list(dict.fromkeys(str(one) for one in dataset["needle_company"].to_numpy()))


def course(dataset: xr.Dataset) -> list[Tried]:
    """What was tried to choose a constant and to calibrate, in its order; empty where nothing was chosen."""
    if "tried_name" not in dataset:
        return []
    names = [str(name) for name in dataset["tried_name"].to_numpy()]
    losses = dataset["tried_loss"].to_numpy().astype(np.float64).tolist()
    parts = [_part(name) for name in names]
    constants = [loss for part, loss in zip(parts, losses, strict=True) if part == "constant"]
    taken = {dataset.attrs["begun"], *json.loads(dataset.attrs["taken"])}
    return [
        Tried(name, loss, part, loss == min(constants) if part == "constant" else name in taken)
        for name, loss, part in zip(names, losses, parts, strict=True)
    ]


def absent(dataset: xr.Dataset) -> dict[str, str]:
    """Why parts of the page have nothing to show, a sentence each by the part's name; only those that have nothing."""
    found: dict[str, str] = {}
    if "tried_name" not in dataset:
        found["tried"] = (
            "Neither a constant nor slopes were chosen: the rules compared are as published. `--rule all` chooses a "
            "constant, `--rule calibrate` slopes as well."
        )
    if "slope" not in dataset:
        found["slope"] = (
            "No slopes: nothing was calibrated. `--rule calibrate` measures which way each head wants to go."
        )
    if "audit_phase" not in dataset:
        found["audit"] = (
            "No phases, κ and b_c: no audit was given. `--audit RUN` adds those of a run of `attnlim audit`."
        )
    if not np.isfinite(dataset["difference_low"]).any():
        found["intervals"] = (
            f"No intervals: {dataset.attrs['windows'][2]} test window with a single block of tokens says nothing about the spread. "
            "`--windows` takes more."
        )
    return found


def signed(value: float) -> str:
    """A difference as it reads everywhere: three decimals, four where it is small.

    >>> signed(-0.0781), signed(0.00431), signed(0.0), signed(float("nan"))
    ('−0.078', '+0.0043', '0', 'n/a')
    """
    if not np.isfinite(value):
        return "n/a"
    if value == 0:
        return "0"
    return f"{value:+.{4 if abs(value) < 0.01 else 3}f}".replace("-", "−")


def _part(name: str) -> str:
    """Which part of the course something tried belongs to, by the names that `attnlim rescale` gives."""
    return "constant" if name.startswith("constant ") else "step" if name.startswith("round ") else "start"
