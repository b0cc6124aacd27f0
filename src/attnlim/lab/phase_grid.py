"""The grid of a phase diagram: what is measured at which sizes, checked before any work, and cut into cells."""

from __future__ import annotations

import hashlib
import importlib.metadata
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnlim.core.cells import Cell
from attnlim.core.checks import InputError, cosine, one_of, real_number, whole_number
from attnlim.lab.devices import usable_device
from attnlim.lab.token_sources import TokenSource, given_tokens, token_source

SCHEMA = 1
MEASURES = ("contraction", "eta", "focus")
DTYPES = ("float32", "float64")
# plotly.js inside the report, the figures, and some air
REPORT_BYTES = 10 * 2**20

DEFAULT_N = (512,)
DEFAULT_WIDTHS = (2, 32, 512)
DEFAULT_RHO = tuple(round(0.1 * i, 12) for i in range(1, 10))
DEFAULT_DRAWS = 4
DEFAULT_GAMMA = tuple(round(0.1 * i, 12) for i in range(41))


@dataclass(frozen=True)
class PhaseGrid:
    """Everything that decides the numbers of a phase diagram, checked.

    Attributes:
        tokens: where the tokens come from.
        n_tokens: numbers of tokens, ascending.
        width: their dimensions d, ascending.
        rho: nominal cosines, ascending; one NaN for tokens that have none.
        gamma: β/ln n, ascending.
        alpha: residual factors, ascending.
        causal: with or without a causal mask.
        draws: token sets of each kind.
        seed: of the tokens, and of sampled rows and probes.
        measure: what is measured, of ``MEASURES``.
        dtype: of the layer.
        rows: sampled rows where n is larger; 0 for all.
        probes: for the costly part of η; 0 takes it exactly.
        threads: of torch, inside a cell.
        device: where the layer runs.
        given: tokens that are not drawn, by number of tokens and draw.
    """

    tokens: TokenSource
    n_tokens: tuple[int, ...]
    width: tuple[int, ...]
    rho: tuple[float, ...]
    gamma: tuple[float, ...]
    alpha: tuple[float, ...]
    causal: tuple[bool, ...]
    draws: int
    seed: int
    measure: tuple[str, ...]
    dtype: str
    rows: int
    probes: int
    threads: int
    device: str
    given: Mapping[tuple[int, int], np.ndarray] = field(default_factory=dict, repr=False)

    def cells(self) -> list[Cell]:
        """One cell for each token set, α and mask, each with every γ; cheap ones first.

        Focus does not depend on α, so only the cells of the first α measure it.
        """
        found = []
        sizes = sorted(itertools.product(self.n_tokens, self.width), key=lambda size: _cost(*size))
        for (n, d), rho, alpha, causal, draw in itertools.product(
            sizes, self.rho, self.alpha, self.causal, range(self.draws)
        ):
            arguments = {
                "tokens": self.tokens.name,
                "n_tokens": n,
                "width": d,
                "rho": rho,
                "draw": draw,
                "gamma": self.gamma,
                "alpha": alpha,
                "causal": causal,
                "seed": self.seed,
                "measure": tuple(name for name in self.measure if name != "focus" or alpha == self.alpha[0]),
                "dtype": self.dtype,
                "rows": self.rows,
                "probes": self.probes,
                "device": self.device,
                "given": self.given.get((n, draw)),
            }
            found.append(Cell(cell_key(n, d, rho, alpha, causal, draw), arguments, _cost(n, d)))
        return found

    def bytes_on_disk(self) -> int:
        """What the run folder and its cells take at most: every number as float64 in cells, Zarr and table, thrice."""
        n_cells = len(self.cells())
        # an archive takes about 400 bytes for each of at most 32 arrays, whatever their length
        return n_cells * (32 * 400 + 5 * 28 * 8 * len(self.gamma)) + REPORT_BYTES

    def identity(self) -> dict[str, Any]:
        """What a resumed run must share with the one that was interrupted."""
        given = hashlib.sha256()
        for (n, draw), tokens in sorted(self.given.items()):
            given.update(f"{n} {draw} {tokens.dtype} {tokens.shape}".encode() + tokens.tobytes())
        names = ("n_tokens", "width", "gamma", "alpha", "causal", "measure")
        return {
            "kind": "attnlim.phase",
            "schema": SCHEMA,
            **{package: importlib.metadata.version(package) for package in ("attnlim", "torch", "numpy")},
            "tokens": self.tokens.name,
            "tokens_sha256": given.hexdigest() if self.given else "",
            **{name: list(getattr(self, name)) for name in names},
            "rho": [None if math.isnan(rho) else rho for rho in self.rho],
            **{name: getattr(self, name) for name in ("draws", "seed", "dtype", "rows", "probes", "threads", "device")},
        }


def cell_key(n_tokens: int, width: int, rho: float, alpha: float, causal: bool, draw: int) -> str:
    """The name of a cell, from its place in the grid alone.

    >>> cell_key(512, 2, 0.3, 0.0, False, 4), cell_key(512, 2, math.nan, 0.5, True, 0)
    ('n512-d2-rho0.3-alpha0-full-draw4', 'n512-d2-alpha0.5-causal-draw0')
    """
    cosine_part = "" if math.isnan(rho) else f"-rho{rho:.12g}"
    return f"n{n_tokens}-d{width}{cosine_part}-alpha{alpha:.12g}-{'causal' if causal else 'full'}-draw{draw}"


def make_grid(
    tokens: Any = "gaussian",
    n_tokens: Iterable[int] | None = None,
    width: Iterable[int] | None = None,
    rho: Iterable[float] | None = None,
    gamma: Iterable[float] | None = None,
    alpha: Iterable[float] | None = None,
    causal: Iterable[bool] | None = None,
    *,
    draws: int | None = None,
    seed: int = 0,
    measure: Iterable[str] | None = None,
    dtype: str = "float32",
    rows: int | None = None,
    probes: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    text: str | None = None,
    elsewhere: bool = False,
) -> PhaseGrid:
    """Check everything that a phase diagram needs; arguments and errors as for :func:`attnlim.lab.phase`.

    Numbers are checked first, and only then are tokens read from a file or taken from a model. Where the cells run
    ``elsewhere``, the device is not tried here, and is the CPU unless it is named.
    """
    source = token_source(tokens)
    sizes = None if n_tokens is None else _ascending("--n", (whole_number("--n", n, 2) for n in n_tokens))
    widths = None if width is None else _ascending("--d", (whole_number("--d", d, 1) for d in width))
    gammas = _ascending("--gamma", (_at_least_0("--gamma", g) for g in (DEFAULT_GAMMA if gamma is None else gamma)))
    alphas = _ascending("--alpha", (_at_least_0("--alpha", a) for a in ((0.0,) if alpha is None else alpha)))
    masks = _ascending(
        "--causal", (one_of("causal", c, (False, True)) for c in ((False,) if causal is None else causal))
    )
    n_draws = DEFAULT_DRAWS if source.sampled and source.random else 1
    if draws is not None:
        n_draws = whole_number("--draws", draws, 1)
    seed = whole_number("--seed", seed, 0)
    one_of("--dtype", dtype, DTYPES)
    n_rows = 0 if rows is None else whole_number("--rows", rows, 3)
    n_probes = 0 if probes is None else whole_number("--probes", probes, 2)
    n_threads = None if threads is None else whole_number("--threads", threads, 1)
    measures = MEASURES if measure is None else _measures(measure)
    if text is not None and source.kind != "model":
        raise InputError(f"--text is for a model to read, got it with --tokens {source.name}; leave it out")
    if not source.random and n_draws > 1:
        raise InputError(f"{source.name} tokens hold no chance, so --draws must be 1, got {n_draws}")
    if not source.sampled and widths is not None:
        raise InputError(f"--d follows from the tokens of {source.name}; leave it out")
    cosines = _cosines(source, rho, sizes or DEFAULT_N)
    _check_beta(gammas[-1], (sizes or DEFAULT_N)[-1], dtype)
    if source.name == "simplex" and widths is not None:
        top = (sizes or DEFAULT_N)[-1]
        whole_number("--d", widths[0], top, f"a simplex of {top} tokens spans as many dimensions")
    where, n_threads = usable_device(device, elsewhere), n_threads or _torch_threads()
    given: Mapping[tuple[int, int], np.ndarray] = {}
    if source.sampled:
        sizes = sizes or DEFAULT_N
        widths = widths or ((sizes[-1],) if source.name == "simplex" else DEFAULT_WIDTHS)
    else:
        given = given_tokens(source, sizes, n_draws, text, n_threads)
        sizes = tuple(sorted({n for n, _ in given}))
        widths = (next(iter(given.values())).shape[1],)
        _check_beta(gammas[-1], sizes[-1], dtype)
    return PhaseGrid(
        source, sizes, widths, cosines, gammas, alphas, masks, n_draws, seed, measures, dtype, n_rows, n_probes, n_threads,
        where, given,
    )  # fmt: skip


def _ascending(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    found = tuple(sorted(set(values)))
    if not found:
        raise InputError(f"{name} needs at least one value, got none")
    return found


def _at_least_0(name: str, value: Any) -> float:
    return real_number(name, value, above=0.0, closed=True)


def _measures(measure: Iterable[str]) -> tuple[str, ...]:
    asked = {one_of("--measure", name, MEASURES) for name in measure}
    if not asked:
        raise InputError(f"--measure needs at least one of {', '.join(MEASURES)}, got none")
    return tuple(name for name in MEASURES if name in asked)


def _cosines(source: TokenSource, rho: Iterable[float] | None, sizes: tuple[int, ...]) -> tuple[float, ...]:
    if not source.takes_rho:
        if rho is not None:
            raise InputError(f"{source.name} tokens take no --rho, their cosine follows from them; leave it out")
        return (math.nan,)
    chosen = DEFAULT_RHO if rho is None else rho
    if source.name == "simplex":
        return _ascending("--rho", (cosine(value, sizes[-1]) for value in chosen))
    top = math.nextafter(1.0, 0.0)
    advice = f"{source.name} tokens share a part, so that their cosine is at least 0 and below 1"
    return _ascending(
        "--rho", (real_number("--rho", r, above=0.0, below=top, closed=True, advice=advice) for r in chosen)
    )


def _check_beta(gamma: float, n_tokens: int, dtype: str) -> None:
    largest = float(np.finfo(dtype).max)
    real_number("--gamma", gamma, above=0.0, below=largest / math.log(n_tokens), closed=True, advice=f"β is a {dtype}")


def _torch_threads() -> int:
    import torch

    return torch.get_num_threads()


def _cost(n_tokens: int, width: int) -> float:
    """Relative time of a cell: pairs, each a product of two rows and what is done with its weights at every γ."""
    return float(n_tokens**2 * (width + 64))
