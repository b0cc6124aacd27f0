"""The rules that `attnlim rescale` compares, each as a way to run one model at a longer context."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlim.core.checks import InputError, one_of, whole_number
from attnlim.rules.catalogue import constant, critical, frozen_log, log_slope, logn, ministral, none, su
from attnlim.rules.factors import yarn_attention_factor
from attnlim.rules.rule import Rule

# logits × one number, chosen on text of its own
CONSTANTS = (1.05, 1.1, 1.2)
# per nat; YaRN's m² beyond n0 to first order
YARN_SLOPE = 0.2


@dataclass(frozen=True)
class Variant:
    """One way to run the model at the target.

    Attributes:
        name: for tables and `--rule`.
        words: what it does, for people.
        rule: on the query.
        stretched: whether the rotary frequencies are YaRN's for the target.
        cos_sin: the factor on cos and sin, dimensionless.
    """

    name: str
    words: str
    rule: Rule
    stretched: bool = True
    cos_sin: float = 1.0

    @property
    def spares_short(self) -> bool:
        """Whether it does nothing within the trained length but stretch: then all such variants share that stretch of text."""
        beyond = {"logn", "log slope", "critical", "ministral"}
        return self.stretched and self.cos_sin == 1 and all(factor.name in beyond for factor in self.rule.factors)


def fixed_variants(trained: int, target: int, exponent: Any = None) -> list[Variant]:
    """Every rule that needs no fit, raw extrapolation first.

    Args:
        trained: n_0, tokens.
        target: tokens, above ``trained``.
        exponent: (n_layers, n_heads) powers of ln n that b_c follows, for the critical rule; None leaves it out.

    Raises:
        InputError: a target that is not beyond the trained length.
    """
    n0 = whole_number("trained", trained, 2)
    n = whole_number("--target", target, n0 + 1, f"rescale goes beyond the {n0} tokens that the model was trained for")
    stretch = n / n0
    yarn = yarn_attention_factor(stretch)
    found = [
        Variant("raw", "positions as trained, no scaling", none(), stretched=False),
        Variant("none", "no scaling", none()),
        Variant("yarn", f"YaRN's own, cos and sin × {yarn:.4f}", none(), cos_sin=yarn),
        Variant("longrope", f"one factor ln {n}/ln {n0} at every position", frozen_log(n0, n)),
        Variant("ssmax", f"ln n/ln {n0} at every position, as SSMax grows", su(n0)),
        Variant("qwen", f"ln n/ln {n0} beyond {n0}", logn(n0)),
        Variant("steps", f"1 + 0.1 ln(1 + ⌊p/{n0}⌋), as Ministral 3", ministral(n0)),
    ]
    if exponent is not None:
        found.append(critical_variant(n0, exponent))
    return found


def critical_variant(trained: int, exponent: Any) -> Variant:
    """The critical rule of every head; a head whose b_c could not be fitted keeps its factor 1."""
    powers = np.asarray(exponent, dtype=np.float64)
    fitted = np.isfinite(powers)
    left = int((~fitted).sum())
    note = f"; {left} of {powers.size} heads without a fit keep 1" if left else ""
    return Variant(
        "critical",
        f"b_c,h(n)/b_c,h({trained}) beyond {trained}{note}",
        critical(trained, np.where(fitted, powers, 0.0)),
    )


def constant_variant(value: float, name: str | None = None, words: str | None = None) -> Variant:
    """One number on every logit at every position."""
    return Variant(name or f"constant {value:g}", words or f"every logit × {value:g}", constant(value))


def slope_variant(name: str, words: str, trained: int, slope: Any) -> Variant:
    """A slope in ln(keys/n0) beyond the trained length, one number or one a head."""
    return Variant(name, words, log_slope(trained, slope))


def slope_of(variant: Variant) -> Any:
    """What :func:`slope_variant` was given: one number, or one a head."""
    return variant.rule.factors[0].parameters["slope"]


@dataclass(frozen=True)
class Choice:
    """What is to be compared.

    Attributes:
        variants: raw, none, and the fixed rules that were asked for.
        everything: whether all of them were.
        constant: whether one number for all logits is chosen on text of its own.
        fit: whether slopes are: one for all heads, and one of each.
    """

    variants: tuple[Variant, ...]
    everything: bool
    constant: bool
    fit: bool


def choose(names: Iterable[str], known: Iterable[Variant]) -> Choice:
    """Read the names of rules: "all", "calibrate", or some of them; "calibrate" by itself is all and a fit.

    Raises:
        InputError: an unknown name, or the critical rule where no audit gave its powers.
    """
    by_name = {variant.name: variant for variant in known}
    asked = list(dict.fromkeys(names))
    for name in asked:
        if name == "critical" and name not in by_name:
            raise InputError(
                "the critical rule needs b_c of every head, which `attnlim audit` measures; give its run with --audit RUN"
            )
        one_of("--rule", name, (*by_name, "constant", "all", "calibrate"))
    everything = "all" in asked or asked == ["calibrate"]
    wanted = {"raw", "none", *(by_name if everything else asked)}
    # in the order of the table, simplest first, in whatever order they were asked for: a recommendation goes by it
    variants = tuple(variant for name, variant in by_name.items() if name in wanted)
    return Choice(variants, everything, everything or "constant" in asked, "calibrate" in asked)
