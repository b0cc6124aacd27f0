"""How far the gap count, as an estimator of β_c, is off at finite n: the table that the documentation prints.

Run ``python -m attnlim.context.bias`` to print it anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from attnlim.context.criticality import beta_c_iid, beta_c_sphere
from attnlim.context.gaps import critical_multiplier
from attnlim.core.checks import InputError, whole_number

Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]


@dataclass(frozen=True)
class ScoreLaw:
    """A law of attention scores: how to draw it, β_c in closed form, β_c from the exact tail."""

    name: str
    draw: Draw
    beta_c: Callable[[int], float]
    tail_beta_c: Callable[[int], float]


@dataclass(frozen=True)
class BiasRow:
    """One law at one n: β_c twice, and what the gap count says of it."""

    law: str
    n_tokens: int
    beta_c: float
    tail_beta_c: float
    mean: float
    standard_error: float
    share_above: float


@dataclass(frozen=True)
class ExponentRow:
    """The power of ln n that the mean gap count follows over a range of n, beside that of β_c."""

    law: str
    fitted: float
    standard_error: float
    beta_c: float
    tail_beta_c: float


def iid_law() -> ScoreLaw:
    """Independent N(0, 1) scores.

    >>> iid_law().name
    'iid N(0, 1)'
    """
    normal = stats.norm()

    def draw(generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        return generator.standard_normal(shape)

    def tail(n_tokens: int) -> float:
        return float(normal.pdf(normal.isf(1 / n_tokens)) * n_tokens)

    return ScoreLaw("iid N(0, 1)", draw, lambda n_tokens: beta_c_iid(n_tokens, 1.0), tail)


def sphere_law(width: int) -> ScoreLaw:
    """Cosines of a fixed query with uniform keys: (1 + cosine)/2 is Beta((d-1)/2, (d-1)/2).

    >>> sphere_law(64).name
    'sphere, d = 64'
    """
    half = (whole_number("width", width, 2) - 1) / 2
    beta = stats.beta(half, half)

    def draw(generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        return 2 * generator.beta(half, half, size=shape) - 1

    def tail(n_tokens: int) -> float:
        return float(beta.pdf(beta.isf(1 / n_tokens)) / 2 * n_tokens)

    return ScoreLaw(f"sphere, d = {width}", draw, lambda n_tokens: beta_c_sphere(n_tokens, width), tail)


def bias_table(
    laws: Sequence[ScoreLaw], n_tokens: Sequence[int], seed: int, n_rows: int = 400
) -> tuple[list[BiasRow], list[ExponentRow]]:
    r"""The mean gap count of drawn rows beside β_c, and its exponent beside the exponent of β_c.

    Two errors are told apart. The closed form drops the constant in front of the tail; with it,

    .. math:: \beta_c^{tail} = \frac{f(s^*)}{P(S > s^*)}, \qquad P(S > s^*) = 1/n,

    the hazard rate of the scores where n of them end. What is left is the bias of the gap count itself.
    The exponent is the least-squares slope of ln(mean b_c) on ln ln n; its standard error follows from those of
    the means, whose draws are independent.

    Source: [*derived*](../derivations.md#random-rows); I'(s) is the hazard rate for I(s) = -ln P(S > s).

    Args:
        laws: laws of scores.
        n_tokens: keys in a row, at least two different sizes, each at least 16.
        seed: at least 0.
        n_rows: rows drawn for each law and size, at least 2.

    Returns:
        A :class:`BiasRow` for each law and size, an :class:`ExponentRow` for each law.

    Raises:
        InputError: an argument outside its range.

    >>> rows, exponents = bias_table([iid_law()], [64, 256], seed=0, n_rows=50)
    >>> [row.mean < row.beta_c for row in rows], round(exponents[0].beta_c, 9)
    ([True, True], 0.5)
    """
    sizes = [whole_number("n_tokens", n, 16) for n in n_tokens]
    if len(set(sizes)) < 2:
        raise InputError(f"n_tokens must hold at least two different sizes to fit an exponent, got {sizes}")
    n_rows = whole_number("n_rows", n_rows, 2)
    generator = np.random.default_rng(whole_number("seed", seed, 0))
    table, exponents = [], []
    for law in laws:
        rows = [_bias_row(law, n, n_rows, generator) for n in sizes]
        table.extend(rows)
        exponents.append(_exponent_row(rows))
    return table, exponents


def bias_markdown(table: Sequence[BiasRow], exponents: Sequence[ExponentRow]) -> str:
    """Both results of :func:`bias_table` as Markdown tables.

    >>> print(bias_markdown([BiasRow("law", 64, 2.0, 1.6, 1.5, 0.01, 0.25)], []).splitlines()[2])
    | law | 64 | 2.00 | 1.60 | 1.500 ± 0.010 | 0.75 | 25 % |
    """
    lines = [
        "| scores | n | β_c, closed form | β_c, exact tail | mean b_c ± s.e. | b_c / closed form | rows above it |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in table:
        lines.append(
            f"| {row.law} | {row.n_tokens} | {row.beta_c:.2f} | {row.tail_beta_c:.2f} "
            f"| {row.mean:.3f} ± {row.standard_error:.3f} | {row.mean / row.beta_c:.2f} "
            f"| {100 * row.share_above:.0f} % |"
        )
    lines += [
        "",
        "| scores | exponent of b_c ± s.e. | of β_c, closed form | of β_c, exact tail |",
        "|---|---|---|---|",
    ]
    for exponent in exponents:
        lines.append(
            f"| {exponent.law} | {exponent.fitted:.2f} ± {exponent.standard_error:.2f} "
            f"| {exponent.beta_c:.2f} | {exponent.tail_beta_c:.2f} |"
        )
    return "\n".join(lines)


def documented_table() -> tuple[list[BiasRow], list[ExponentRow]]:
    """The table as the documentation prints it: octaves from 512 to 8192, seed 0, 1000 rows of each.

    Cost: 80 million draws, about ten seconds on one core.
    """
    laws = [iid_law(), *(sphere_law(width) for width in (8, 32, 64, 128))]
    return bias_table(laws, [512, 1024, 2048, 4096, 8192], seed=0, n_rows=1000)


def _bias_row(law: ScoreLaw, n_tokens: int, n_rows: int, generator: np.random.Generator) -> BiasRow:
    scores = law.draw(generator, (n_rows, n_tokens))
    values = critical_multiplier(torch.from_numpy(scores)).numpy()
    error = float(values.std(ddof=1)) / math.sqrt(n_rows)
    closed = law.beta_c(n_tokens)
    above = float((values > closed).mean())
    return BiasRow(law.name, n_tokens, closed, law.tail_beta_c(n_tokens), float(values.mean()), error, above)


def _exponent_row(rows: Sequence[BiasRow]) -> ExponentRow:
    x = np.log(np.log([row.n_tokens for row in rows]))
    lever = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    relative = np.array([row.standard_error / row.mean for row in rows])
    fitted, closed, tail = (
        float(lever @ np.log([getattr(row, column) for row in rows])) for column in ("mean", "beta_c", "tail_beta_c")
    )
    return ExponentRow(rows[0].law, fitted, float(np.linalg.norm(lever * relative)), closed, tail)


if __name__ == "__main__":
    print(bias_markdown(*documented_table()))
