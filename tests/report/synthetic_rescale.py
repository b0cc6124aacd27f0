"""Comparisons of scaling rules with losses that are made up, put together by the code that real ones go through."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import xarray

from attnlim.rules.layer_kinds import Layer
from attnlim.rules.rescale_dataset import Course, Tested, assemble
from attnlim.rules.rescale_words import recommended, verdict
from attnlim.rules.slope_steps import shrunk_gradient
from attnlim.rules.variants import constant_variant, fixed_variants, slope_variant

# what a rule adds to the loss beyond the trained length, within it, and to a needle's number; nats
EFFECTS = {
    "raw": (3.0, -0.02, 4.0),
    "ssmax": (-0.02, 0.4, -0.2),
    "qwen": (-0.015, 0.0, -0.3),
    "calibrated": (-0.05, 0.0, -0.6),
}
DEPTHS = {"alone": (0.1, 0.3, 0.5, 0.7, 0.9), "competing": tuple((i + 0.5) / 8 for i in range(8))}

# nothing but one rule, on one window
BARE: dict[str, Any] = {
    "fixed": ("yarn",), "constants": False, "calibrated": False, "audit": False, "windows": 1, "n_layers": 3,
}  # fmt: skip


def rescale_dataset(**settings: Any) -> xarray.Dataset:
    """A copy of what :func:`comparison` makes with these settings, which is made once."""
    return _made(tuple(settings.items())).copy(deep=True)


@functools.cache
def _made(settings: tuple[tuple[str, Any], ...]) -> xarray.Dataset:
    return comparison(**dict(settings))


def comparison(
    *,
    trained: int = 128,
    stretch: int = 2,
    n_layers: int = 6,
    n_heads: int = 3,
    windows: int = 2,
    fixed: tuple[str, ...] | None = None,
    constants: bool = True,
    calibrated: bool = True,
    audit: bool = True,
) -> xarray.Dataset:
    """Slopes by head are best beyond the trained length, raw extrapolation is 3 nats off, ssmax spoils short contexts."""
    rng = np.random.default_rng(11)
    shape, target = (n_layers, n_heads), stretch * trained
    heads = _audited(rng, shape) if audit else {}
    variants = fixed_variants(trained, target, heads.get("critical_exponent"))
    if fixed is not None:
        variants = [one for one in variants if one.name in ("raw", "none", *fixed)]
    if constants:
        variants.append(constant_variant(1.1, "constant"))
    course = _course(rng, trained, shape, constants, calibrated)
    if course.slope is not None:
        course.shared_slope = 0.2
        variants.append(slope_variant("slope", f"1 + 0.2 ln(n/{trained})", trained, course.shared_slope))
        variants.append(slope_variant("calibrated", f"1 + w ln(n/{trained}), w by head", trained, course.slope))
    tested = Tested(variants)
    hard = rng.gamma(2.0, 1.2, (windows, target))
    position = np.arange(target)
    needles = {company: rng.gamma(2.0, 1.0, len(depths)) for company, depths in DEPTHS.items()}
    for variant in variants:
        beyond, within, number = EFFECTS.get(variant.name, (-0.005, 0.0, 0.1))
        effect = np.where(position < trained, within, beyond)
        spread = 0.05 if variant.name != "none" else 0.0
        for window in range(windows):
            nll = hard[window] + effect + spread * rng.standard_normal(target) * (effect != 0)
            nll[0] = np.nan
            tested.put({"kind": "nll", "name": variant.name, "window": window}, {"nll": nll})
        for company, base in needles.items():
            nll = np.maximum(0.05, base + number + spread * rng.standard_normal(len(base)))
            mass = rng.beta(0.4, 8.0, (len(base), *shape))
            mass[:, n_layers // 2, 1] = 0.6 + 0.1 * rng.random(len(base))
            tested.put(
                {"kind": "needles", "name": variant.name, "company": company},
                {"nll": nll, "found": nll < 1.5, "mass": mass},
            )
    plan = SimpleNamespace(
        windows={"test": (None,) * windows}, trained=trained, target=target, seed=0, shape=shape, heads=heads,
        layers=(Layer("full_attention", rotary=True, window=None),) * n_layers,
        constants=(1.1,) if constants else (), starts=(None,) if calibrated else (),
        hay={
            company: SimpleNamespace(needles=[SimpleNamespace(company=company, depth=depth) for depth in depths])
            for company, depths in DEPTHS.items()
        },
        attributes={
            "model": "toy", "model_note": "4-bit weights, dequantised", "model_class": "ToyForCausalLM",
            "texts": ["pydoc_data.topics"], "texts_sha256": ["0" * 64],
            "windows": [2 if calibrated else 0, 1 if calibrated or constants else 0, windows],
            "trained_length": trained, "target": target, "per": "head", "seed": 0, "attention": "sdpa", "dtype": "float32",
            "device": "cpu",
        },
    )  # fmt: skip
    dataset = assemble(plan, tested, course)  # type: ignore[arg-type]
    return dataset.assign_attrs(recommended=recommended(dataset), verdict=verdict(dataset))


def _course(
    rng: np.random.Generator, trained: int, shape: tuple[int, int], constants: bool, calibrated: bool
) -> Course:
    course = Course()
    if constants:
        course.names += ["constant 1.05", "constant 1.1"]
        course.losses += [3.02, 3.01]
    if calibrated:
        course.names += ["slope 0", "slope 0.2", "round 1, step × 0.5", "round 1, step × 1", "round 2, step × 1"]
        course.losses += [3.05, 3.03, 3.0, 3.04, 3.02]
        course.begun, course.taken = "slope 0.2", ["round 1, step × 0.5"]
        for _ in range(2):
            windows = 0.01 * rng.standard_normal((2, *shape)) + 0.01 * rng.standard_normal(shape)
            course.derived(windows, shrunk_gradient(windows))
        course.slope = 0.2 + 0.1 * rng.standard_normal(shape)
    return course


def _audited(rng: np.random.Generator, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {
        "critical_exponent": rng.normal(0.6, 0.3, shape),
        "critical_multiplier": np.exp(rng.normal(0.0, 0.5, shape)),
        "kappa": rng.uniform(-0.1, 1.0, shape),
        "phase": rng.integers(0, 4, shape).astype(np.int8),
    }
    for name in ("critical_exponent", "critical_multiplier", "kappa"):
        found[name][1, 1] = np.nan
    found["phase"][1, 1] = -1
    return found
