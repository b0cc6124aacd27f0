"""What a comparison of rules at a longer context consists of, checked before the first forward."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import attnlim
from attnlim.core.cells import Cell
from attnlim.core.checks import InputError, one_of, whole_number
from attnlim.models.forward_cost import forward_cost
from attnlim.models.loading import LoadedModel, fingerprint, trained_length
from attnlim.models.prefilling import check_reads_on
from attnlim.models.text import Text, cut_windows
from attnlim.rules.attaching import check_unscaled, config_layers
from attnlim.rules.audited_heads import heads_of
from attnlim.rules.layer_kinds import Layer
from attnlim.rules.needles import COMPANIES, Company, Haystack, haystack
from attnlim.rules.slope_steps import PER, Per
from attnlim.rules.stretching import check_stretchable
from attnlim.rules.variants import (
    CONSTANTS,
    YARN_SLOPE,
    Variant,
    choose,
    constant_variant,
    fixed_variants,
    slope_of,
    slope_variant,
)

SCHEMA = 1
SETS = ("calibrate", "stop", "test")
# steps of a calibration: a round measures the derivative once and tries these multiples of the radius before
ROUNDS = 2
RADII = (0.5, 1.0, 2.0)
FIRST_RADIUS = 0.1
# forward, backward, and once more forward through blocks that keep nothing
DERIVATIVE_PASSES = 4.0
LEFT_OUT = "without the critical rule, which needs b_c of every head: --audit RUN of `attnlim audit`"
REPORT_BYTES = 10 * 2**20


@dataclass(frozen=True)
class Plan:
    """Everything that decides the numbers of a comparison.

    Attributes:
        model: the causal language model, in evaluation mode.
        trained: n_0, tokens.
        target: tokens.
        windows: by set, each (1, target) int64.
        hay: contexts with needles, by company.
        variants: the rules without a fit, raw extrapolation and none first.
        constants: factors of which one is chosen; empty where none is.
        starts: slopes where a calibration may begin; empty without one.
        per: what shares a slope.
        seed: of the needles and of the bootstrap.
        heads: by head, what an audit says of them; empty without one.
        left_out: in words, what "all" does not hold and why.
        attributes: provenance kept with the data.
    """

    model: Any
    trained: int
    target: int
    windows: dict[str, tuple[Tensor, ...]]
    hay: dict[Company, Haystack]
    variants: tuple[Variant, ...]
    constants: tuple[float, ...]
    starts: tuple[Variant, ...]
    per: Per
    seed: int
    heads: dict[str, np.ndarray] = field(repr=False)
    left_out: tuple[str, ...]
    attributes: dict[str, Any] = field(repr=False)

    @property
    def stretch(self) -> float:
        """Target over trained length."""
        return self.target / self.trained

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and query heads."""
        config = self.model.config.get_text_config()
        return config.num_hidden_layers, config.num_attention_heads

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Every layer, with what its rows see."""
        return config_layers(self.model)

    @property
    def derives_whole(self) -> bool:
        """Whether derivatives read whole windows by the causal kernel, and not what lies beyond the trained length with a mask.

        A mask has pairs that are computed and hidden: (target - trained) · target of them against the causal half of target².
        The states of recurrent layers would change while a block runs twice on them.
        """
        return self.target >= 2 * self.trained or not all(layer.softmax for layer in self.layers)

    @property
    def shares_prefix(self) -> bool:
        """Whether variants that do nothing within the trained length read it once, and what lies beyond behind it with a mask.

        Losses are read in small pieces, whose hidden pairs are few, so a mask costs its own making and reading alone. That is
        worth it where the trained length holds a quarter of the causal pairs, and no longer where it holds a ninth.
        """
        return self.target <= 2 * self.trained

    def reads_prefix(self, variant: Variant) -> bool:
        """Whether the losses of this variant are read behind a prefix that others share."""
        return self.shares_prefix and variant.spares_short

    def fit_cells(self) -> list[Cell]:
        """What is run to choose a constant and to calibrate, at most: a calibration that finds no step ends early."""
        stop = range(len(self.windows["stop"]))
        cells = [self.nll_cell("stop", f"constant {value:g}", w, False) for value in self.constants for w in stop]
        cells += [self.nll_cell("stop", start.name, w, self.shares_prefix) for start in self.starts for w in stop]
        for turn in range(ROUNDS if self.starts else 0):
            cells += [self.gradient_cell(turn, w) for w in range(len(self.windows["calibrate"]))]
            cells += [
                self.nll_cell("stop", step_name(turn, radius), w, self.shares_prefix) for radius in RADII for w in stop
            ]
        return cells

    def test_cells(self, variants: Sequence[Variant]) -> list[Cell]:
        """What is run to compare them: windows of text, then needles; variants that share a beginning follow each other."""
        ordered = sorted(variants, key=lambda variant: not variant.spares_short)
        text = [
            self.nll_cell("test", one.name, w, self.reads_prefix(one))
            for w in range(len(self.windows["test"]))
            for one in ordered
        ]
        needles = [
            Cell(
                f"needles-{company}-{_slug(one.name)}",
                {"kind": "needles", "name": one.name, "company": company, "n_tokens": self.target},
                self._cost(self.reads_prefix(one)),
            )
            for company in self.hay
            for one in ordered
        ]
        return text + needles

    def nll_cell(self, part: str, name: str, window: int, behind_prefix: bool) -> Cell:
        """The losses of one window under one variant."""
        arguments = {"kind": "nll", "part": part, "name": name, "window": window, "n_tokens": self.target}
        return Cell(f"{part}-{_slug(name)}-window-{window}", arguments, self._cost(behind_prefix))

    def gradient_cell(self, turn: int, window: int) -> Cell:
        """The derivatives of one window in one round."""
        arguments = {"kind": "gradient", "turn": turn, "window": window, "n_tokens": self.target}
        cost = DERIVATIVE_PASSES * self._cost(not self.derives_whole)
        return Cell(f"derivative-{turn}-window-{window}", arguments, cost)

    def cells(self) -> list[Cell]:
        """All of them, with a place for what is only chosen on the way."""
        variants = list(self.variants)
        if self.constants:
            variants.append(constant_variant(self.constants[0], "constant"))
        if self.starts:
            variants.append(slope_variant("slope", "", self.trained, 0.0))
            variants.append(slope_variant("calibrated", "", self.trained, 0.0))
        return self.fit_cells() + self.test_cells(variants)

    def prefix_cost(self) -> float:
        """What reading the shared beginnings of all windows and contexts adds."""
        rounds = ROUNDS if self.starts else 0
        texts = rounds * len(self.windows["calibrate"]) * (not self.derives_whole)
        if self.shares_prefix:
            texts += len(self.windows["test"]) + len(self.hay)
            texts += (rounds + 1) * len(self.windows["stop"]) if self.starts else 0
        return texts * forward_cost(self.model, self.trained)

    def identity(self) -> dict[str, Any]:
        """What a resumed run must share with the one that was interrupted."""
        digest = hashlib.sha256()
        for part in SETS:
            for ids in self.windows[part]:
                digest.update(ids.numpy().tobytes())
        for hay in self.hay.values():
            digest.update(hay.ids.numpy().tobytes())
        return {
            **{name: value for name, value in self.attributes.items() if name != "model"},
            "attnlim": attnlim.__version__,
            "schema": SCHEMA,
            "torch": torch.__version__,
            "tokens_sha256": digest.hexdigest(),
            "model_fingerprint": fingerprint(self.model),
            "variants": [repr(variant.rule.name) + variant.words for variant in self.variants],
            "starts": [_digest(start) for start in self.starts],
            "threads": torch.get_num_threads(),
        }

    def bytes_on_disk(self) -> int:
        """What the run's folder and its cells take at most."""
        return 64 * len(self.cells()) * self.target + REPORT_BYTES

    def _cost(self, behind_prefix: bool) -> float:
        """Relative time of a forward: two operations a weight and token, and the attention's pairs."""
        whole = forward_cost(self.model, self.target)
        return whole - forward_cost(self.model, self.trained) if behind_prefix else whole


def step_name(turn: int, radius: float) -> str:
    """What a step of a calibration is called."""
    return f"round {turn + 1}, step × {radius:g}"


def check_rescalable(model: Any, name: str) -> int:
    """The trained length of a model whose rules can be compared beyond it.

    Raises:
        InputError: no trained length, positions that cannot be stretched, no cache to read on from, or a config that scales
            its logits already.
    """
    trained = trained_length(model)
    if trained is None:
        raise InputError(f"{name}: its config names no trained length, so there is nothing to rescale from")
    check_stretchable(model)
    check_unscaled(model, "rescale compares rules on plain logits, give the checkpoint without it")
    check_reads_on(model)
    return trained


def make_plan(
    loaded: LoadedModel,
    texts: Sequence[Text],
    target: int,
    names: Iterable[str],
    *,
    windows: Sequence[int] = (2, 1, 2),
    per: str = "head",
    audit: xr.Dataset | None = None,
    seed: int = 0,
) -> Plan:
    """Check everything that a comparison needs, and cut its texts.

    Args:
        loaded: a causal language model with its head.
        texts: one, of which the three sets are three parts, or three: calibrate, stop, test.
        target: tokens, beyond the trained length.
        names: rules to compare beside raw extrapolation and none: "all" for every one that needs no fit by head, "calibrate" for
            a fit, by itself for all and a fit.
        windows: of the three sets; a fit needs at least two to calibrate on.
        per: what shares a slope: "head", "layer" or "model".
        audit: of this model: powers of the critical rule, phases of its heads; None leaves that rule out of "all".
        seed: of the needles' numbers and of the bootstrap.

    Raises:
        InputError: a target that is not beyond the trained length, a text too short for the sets, an unknown rule, the critical
            rule without an audit, a model without a trained length, whose positions cannot be stretched, that cannot go on
            from a cache or whose config scales its logits already.
    """
    shared: Per = one_of("--per", per, PER)
    model = loaded.model.eval()
    trained = check_rescalable(model, loaded.name)
    config = model.config.get_text_config()
    heads = {} if audit is None else heads_of(audit, config.num_hidden_layers, config.num_attention_heads)
    powers = heads.get("critical_exponent")
    choice = choose(names, fixed_variants(trained, whole_number("--target", target, 2), powers))
    starts = _starts(trained, powers) if choice.fit else []
    constants = CONSTANTS if choice.constant else ()
    counts = dict(zip(SETS, windows, strict=True))
    for part, count in counts.items():
        whole_number(f"windows of the set {part!r}", count, 2 if part == "calibrate" and choice.fit else 1)
    if not choice.fit:
        counts["calibrate"] = 0
    if not choice.fit and not constants:
        counts["stop"] = 0
    cut = _cut(loaded.tokenizer, texts, counts, target)
    hay = {company: haystack(loaded.tokenizer, cut["test"][0], company, target, seed) for company in COMPANIES}
    left_out = () if powers is not None or not choice.everything else (LEFT_OUT,)
    attributes = {
        "model": loaded.name,
        "model_note": loaded.note,
        "model_class": type(model).__name__,
        "texts": [text.name for text in texts],
        "texts_sha256": [text.sha256 for text in texts],
        "windows": list(counts.values()),
        "trained_length": trained,
        "target": target,
        "per": per,
        "seed": seed,
        "attention": model.config._attn_implementation,
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        "device": str(next(model.parameters()).device),
    }
    return Plan(
        model,
        trained,
        target,
        cut,
        hay,
        choice.variants,
        constants,
        tuple(starts),
        shared,
        seed,
        heads,
        left_out,
        attributes,
    )


def _starts(trained: int, powers: np.ndarray | None) -> list[Variant]:
    """Where a calibration may begin: nothing, Qwen's, YaRN's to first order, and theory's where an audit gives it."""
    of_qwen = 1 / float(np.log(trained))
    starts = [
        slope_variant("slope 0", "no scaling", trained, 0.0),
        slope_variant(f"slope {of_qwen:.3f}", "Qwen's slope in every head", trained, of_qwen),
        slope_variant(f"slope {YARN_SLOPE:g}", "YaRN's slope in every head", trained, YARN_SLOPE),
    ]
    if powers is not None:
        theory = np.nan_to_num(powers) * of_qwen  # (ln n/ln n0)^ζ to first order in ln(n/n0)
        starts.append(slope_variant("slopes of the critical rule", "ζ_h/ln n0", trained, theory))
    return starts


def _cut(tokenizer: Any, texts: Sequence[Text], counts: dict[str, int], target: int) -> dict[str, tuple[Tensor, ...]]:
    if len(texts) not in (1, len(SETS)):
        raise InputError(
            f"--text takes one file, which is cut into three parts, or three: to calibrate, to stop and to test, got {len(texts)}"
        )
    total = sum(counts.values())
    wanted = (
        [("", texts[0], total)]
        if len(texts) == 1
        else [(part, text, counts[part]) for part, text in zip(SETS, texts, strict=True)]
    )
    found: list[Tensor] = []
    for part, text, count in wanted:
        if not count:
            continue
        try:
            cut = cut_windows(tokenizer, text, count, target)
        except InputError as reason:
            asked = ", ".join(f"{n} to {name}" for name, n in counts.items() if n)
            problem = str(reason).partition(";")[0]
            raise InputError(
                f"{problem} ({part or asked}); give a longer --text, fewer --windows or a shorter --target"
            ) from reason
        found += [cut.ids(w, target) for w in range(count)]
    ends = np.cumsum([0, *counts.values()])
    return {part: tuple(found[ends[i] : ends[i + 1]]) for i, part in enumerate(SETS)}


def _digest(variant: Variant) -> str:
    """The slopes of a start, so that another audit is another run."""
    values = np.ascontiguousarray(slope_of(variant), dtype=np.float64)
    return f"{variant.name} {hashlib.sha256(values.tobytes()).hexdigest()[:16]}"


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() or c == "." else " " for c in name).split())
