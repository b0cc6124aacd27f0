"""How large a reproduction of "Critical attention scaling" is: a laptop's minutes, or the paper's own figures."""

from __future__ import annotations

from dataclasses import dataclass, replace

# 19 cosines and 41 temperatures, as in the paper's figures, whose own range of γ is not in its summary: up to 6 a step
# of γ is an eighth of the window at ρ = 0.5 and a quarter at ρ = 0.05, and 16 of the 19 thresholds 1/(1-ρ) lie inside
RHO = tuple(round(0.05 * i, 12) for i in range(1, 20))
GAMMA = tuple(round(0.15 * i, 12) for i in range(41))


@dataclass(frozen=True)
class Size:
    """What is measured on drawn tokens, and on how many of them; the closed forms are the same at every size.

    Attributes:
        name: the size as it is recorded.
        n_tokens: tokens of figures 1 and 2.
        widths: their dimensions d: a wide, a middle and a narrow one.
        rho: nominal cosines of figures 1 and 2, ascending.
        gamma: β/ln n of figures 1 and 2, ascending.
        draws: token sets of each kind, the units of every interval.
        bounds_draws: token sets whose extreme cosines are looked at; extremes scatter more than means.
        window_n: numbers of tokens whose self weights are set against t.
        window_width: their dimension.
        window_rows: their rows that are looked at.
        series_n: numbers of tokens over which exponents are fitted.
        pair_n: tokens of the counterexamples.
        score_n: keys of the rows whose gap count is fitted.
        independent_log10_n: decimal logarithms of the n at which rows of independent scores are integrated, ascending;
            4 and 6 stand for real contexts, the last two for the limit.
        chain_n: tokens among which content is set against windows of positions.
    """

    name: str
    n_tokens: int
    widths: tuple[int, int, int]
    rho: tuple[float, ...]
    gamma: tuple[float, ...]
    draws: int
    bounds_draws: int
    window_n: tuple[int, ...]
    window_width: int
    window_rows: int
    series_n: tuple[int, ...]
    pair_n: int
    score_n: tuple[int, ...]
    independent_log10_n: tuple[int, ...]
    chain_n: int


LAPTOP = Size(
    name="laptop",
    n_tokens=512,
    widths=(512, 32, 2),
    rho=RHO,
    gamma=GAMMA,
    draws=4,
    bounds_draws=16,
    window_n=(10**3, 10**4, 10**5, 10**6),
    window_width=512,
    window_rows=64,
    series_n=(256, 512, 1024),
    pair_n=1000,
    score_n=(256, 1024, 4096),
    independent_log10_n=(4, 6, 100, 300),
    chain_n=1024,
)
FULL = Size(
    name="full",
    n_tokens=2048,
    widths=(512, 32, 2),
    rho=RHO,
    gamma=GAMMA,
    draws=5,
    bounds_draws=20,
    window_n=(10**3, 10**4, 10**5, 10**6),
    window_width=4096,
    window_rows=128,
    series_n=(512, 1024, 2048, 4096),
    pair_n=2000,
    score_n=(256, 1024, 4096, 16384),
    independent_log10_n=(4, 6, 100, 300),
    chain_n=4096,
)
SIZES = {size.name: size for size in (LAPTOP, FULL)}


def rehearsal(size: Size) -> Size:
    """A size of seconds with the same kinds of cells, each at most as costly, from which the time is estimated."""
    return replace(
        size,
        name="rehearsal",
        n_tokens=min(size.n_tokens, 256),
        rho=size.rho[len(size.rho) // 2 :][:1],
        draws=1,
        bounds_draws=1,
        window_n=(min(max(size.window_n), 2**15),),
        series_n=tuple(n for n in size.series_n if n <= 512) or size.series_n[:1],
        pair_n=min(size.pair_n, 256),
        score_n=size.score_n[:2],
        independent_log10_n=size.independent_log10_n[:2],
        chain_n=min(size.chain_n, 512),
    )
