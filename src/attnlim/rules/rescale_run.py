"""A comparison of rules at a longer context: choose a constant, calibrate, then judge everything on text not seen before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from attnlim.core.cells import Arrays, Cell, run_cells
from attnlim.models.loading import LoadedModel
from attnlim.models.text import Text, read_text
from attnlim.rules.attaching import multiplier_of
from attnlim.rules.exporting import export, variant_of
from attnlim.rules.head_sensitivity import sensitivity
from attnlim.rules.needle_scores import needle_scores
from attnlim.rules.needles import Company
from attnlim.rules.rescale_dataset import Course, Tested, assemble
from attnlim.rules.rescale_plan import FIRST_RADIUS, RADII, ROUNDS, Plan, make_plan, step_name
from attnlim.rules.rescale_words import recommended, verdict
from attnlim.rules.slope_steps import shrunk_gradient, stepped
from attnlim.rules.stretching import stretched
from attnlim.rules.variant_running import Prefix, shared_prefix, window_nll
from attnlim.rules.variants import Variant, constant_variant, slope_of, slope_variant

Progress = Callable[[Cell, bool], None]


@dataclass
class _Runner:
    """Runs cells, and keeps the beginning of the window that it read last: cells of a window follow each other."""

    plan: Plan
    folder: Path | None
    progress: Progress
    held: tuple[tuple[str, Any], Prefix] | None = field(default=None, repr=False)

    def nll(self, part: str, variant: Variant) -> np.ndarray:
        """(n_windows, target) losses of a set of windows."""
        behind = self.plan.reads_prefix(variant)
        cells = [self.plan.nll_cell(part, variant.name, w, behind) for w in range(len(self.plan.windows[part]))]
        return np.stack([arrays["nll"] for _, arrays in self.run(cells, [variant])])

    def run(self, cells: Sequence[Cell], variants: Sequence[Variant]) -> list[tuple[Cell, Arrays]]:
        """Losses and needles of variants."""
        by_name = {variant.name: variant for variant in variants}

        def work(
            kind: str, name: str, n_tokens: int, window: int = 0, part: str = "", company: Company = "alone"
        ) -> Arrays:
            variant, plan = by_name[name], self.plan
            if kind == "needles":
                hay = plan.hay[company]
                prefix = self.prefix(("needles", company), hay.ids) if plan.reads_prefix(variant) else None
                scores = needle_scores(plan.model, hay, variant, plan.stretch, plan.shape, prefix)
                return {"nll": scores.nll, "found": scores.found, "mass": scores.mass}
            ids = plan.windows[part][window]
            prefix = self.prefix((part, window), ids) if plan.reads_prefix(variant) else None
            return {"nll": window_nll(plan.model, ids, variant, plan.stretch, prefix)}

        return list(run_cells(cells, work, self.folder, self.progress))

    def derivatives(self, turn: int, slope: np.ndarray) -> np.ndarray:
        """(n_windows, n_layers, n_heads) of the set to calibrate on, beyond the trained length."""
        plan = self.plan
        at = slope_variant("now", "", plan.trained, slope)

        def work(kind: str, turn: int, window: int, n_tokens: int) -> Arrays:
            ids = plan.windows["calibrate"][window]
            whole = plan.derives_whole
            past = None if whole else self.prefix(("calibrate", window), ids).read.cache
            with stretched(plan.model, plan.stretch):
                found = sensitivity(
                    plan.model,
                    ids if whole else ids[:, plan.trained :],
                    trained=plan.trained,
                    multiplier=multiplier_of(at.rule, plan.model),
                    past=past,
                    targets_from=plan.trained + 1 if whole else 1,
                )
            by_slope = np.full(plan.shape, np.nan)
            by_slope[list(found.layers), : found.by_slope.shape[1]] = found.by_slope
            return {"by_slope": by_slope}

        cells = [plan.gradient_cell(turn, w) for w in range(len(plan.windows["calibrate"]))]
        return np.stack([arrays["by_slope"] for _, arrays in run_cells(cells, work, self.folder, self.progress)])

    def prefix(self, of: tuple[str, Any], ids: Any) -> Prefix:
        """The trained length of a window, read once for all that follow each other."""
        if self.held is None or self.held[0] != of:
            self.held = None  # one at a time: it is the largest thing in memory beside the model
            self.held = (of, shared_prefix(self.plan.model, ids, self.plan.trained, self.plan.stretch))
        return self.held[1]


def rescale(
    loaded: LoadedModel,
    target: int,
    rules: str | Sequence[str] = "all",
    texts: Sequence[Text | str] | None = None,
    *,
    windows: Sequence[int] = (2, 1, 2),
    per: str = "head",
    audit: xr.Dataset | None = None,
    seed: int = 0,
    progress: Progress = lambda cell, was_stored: None,
    export_to: str | Path | None = None,
) -> xr.Dataset:
    """Compare scaling rules of a real model beyond its trained length, calibrate one, and say which to take.

    Args:
        loaded: a causal language model with its head, from ``attnlim.models.load(..., head=True)``.
        target: tokens, beyond the trained length.
        rules: names, "all" or "calibrate"; see the manual.
        texts: one, cut into three parts, or three: to calibrate, to stop, to test; None takes the language reference inside
            CPython.
        windows: of the three sets.
        per: what shares a slope: "head", "layer" or "model".
        audit: of the same model, for the critical rule and the phases of its heads.
        seed: of the needles' numbers and of the bootstrap.
        progress: told of every finished cell.
        export_to: a folder for what is recommended: ``attnlim/rope_parameters.json`` for the config, ``attnlim/rule.json`` for
            :func:`attnlim.rules.load`, where there are such; None writes nothing.

    Returns:
        Losses, needles, slopes over variants; ``.attrs["verdict"]`` says in words what they come to and
        ``.attrs["recommended"]`` what to take.

    Raises:
        InputError: a target that is not beyond the trained length, texts too short, an unknown rule, the critical rule without
            an audit, a model whose positions cannot be stretched or whose attention cannot be hooked.

    Source: *ours*.
    """
    names = [rules] if isinstance(rules, str) else list(rules)
    given = [one if isinstance(one, Text) else Text("text", one) for one in texts or [read_text(None)]]
    plan = make_plan(loaded, given, target, names, windows=windows, per=per, audit=audit, seed=seed)
    dataset = run_plan(plan, progress=progress)
    if export_to is not None:
        export(plan, variant_of(plan, dataset, dataset.attrs["recommended"]), Path(export_to))
    return dataset


def run_plan(
    plan: Plan, cells_folder: Path | None = None, progress: Progress = lambda cell, was_stored: None
) -> xr.Dataset:
    """Run a comparison's cells, those that ``cells_folder`` does not hold yet, and put the result together.

    Args:
        plan: what to run.
        cells_folder: where finished cells are kept.
        progress: told of every finished cell.

    Returns:
        The dataset of the comparison, see :mod:`attnlim.rules.rescale_dataset`.
    """
    runner = _Runner(plan, cells_folder, progress)
    course = Course()
    variants = list(plan.variants)
    if plan.constants:
        variants.append(_best_constant(runner, course))
    if plan.starts:
        losses = {one.name: course.note(one.name, runner.nll("stop", one), plan.trained) for one in plan.starts}
        variants.append(_best_slope(plan, losses, course))
        variants.append(_calibrated(runner, losses, course))
    tested = Tested(variants)
    for cell, arrays in runner.run(plan.test_cells(variants), variants):
        tested.put(cell.arguments, arrays)
    dataset = assemble(plan, tested, course)
    return dataset.assign_attrs(recommended=recommended(dataset), verdict=verdict(dataset))


def _best_constant(runner: _Runner, course: Course) -> Variant:
    losses = {}
    for value in runner.plan.constants:
        variant = constant_variant(value)
        losses[value] = course.note(variant.name, runner.nll("stop", variant), runner.plan.trained)
    best = min(losses, key=losses.__getitem__)
    course.constant = best
    words = f"every logit × {best:g}, the best of {', '.join(f'{value:g}' for value in losses)} on text of its own"
    return constant_variant(best, "constant", words)


def _best_slope(plan: Plan, losses: Mapping[str, float], course: Course) -> Variant:
    """The best slope that all heads share, 0 aside, which is none: what slopes by head are to be better than."""
    shared = {one.name: slope_of(one) for one in plan.starts if np.ndim(slope_of(one)) == 0 and slope_of(one) != 0}
    best = min(shared, key=losses.__getitem__)
    course.shared_slope = float(shared[best])
    tried = ", ".join(f"{value:.3g}" for value in shared.values())
    words = f"1 + {course.shared_slope:.3g} ln(n/{plan.trained}) beyond {plan.trained}, the best of {tried} on text of its own"
    return slope_variant("slope", words, plan.trained, course.shared_slope)


def _calibrated(runner: _Runner, losses: Mapping[str, float], course: Course) -> Variant:
    plan = runner.plan
    starts = {start.name: start for start in plan.starts}
    begun = min(losses, key=losses.__getitem__)
    least = losses[begun]
    slope = np.broadcast_to(slope_of(starts[begun]), plan.shape).astype(np.float64)
    course.begun = begun
    radius = FIRST_RADIUS
    for turn in range(ROUNDS):
        derivatives = runner.derivatives(turn, slope)
        direction = shrunk_gradient(derivatives, plan.per)
        course.derived(derivatives, direction)
        tried: dict[float, tuple[float, np.ndarray]] = {}
        for multiple in RADII:
            there = stepped(slope, direction.gradient, multiple * radius)
            name = step_name(turn, multiple)
            step = slope_variant(name, "", plan.trained, there)
            tried[multiple] = course.note(name, runner.nll("stop", step), plan.trained), there
        multiple = min(tried, key=lambda one: tried[one][0])
        if tried[multiple][0] >= least:
            break
        least, slope = tried[multiple]
        radius *= multiple
        course.taken.append(step_name(turn, multiple))
    course.slope = slope
    return slope_variant("calibrated", f"1 + w ln(n/{plan.trained}), w by {plan.per}", plan.trained, slope)
