"""The parameters at the start: a law for a head, and how heads of different layers depend on each other."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlim.core.checks import InputError, whole_number
from attnlim.core.seeds import generator

Law = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]
LAYOUTS = ("iid", "shared", "smooth")


def xavier(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Xavier's uniform law for matrices (..., k, d): entries in ±√(6/(k+d))."""
    largest = math.sqrt(6 / (shape[-2] + shape[-1]))
    return rng.uniform(-largest, largest, shape)


def unit_uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Entries uniform in [-1, 1], whatever the sizes."""
    return rng.uniform(-1.0, 1.0, shape)


LAWS: dict[str, Law] = {"xavier": xavier, "uniform": unit_uniform}


def initial_parameters(
    n_layers: int,
    n_heads: int,
    head_dim: int,
    width: int,
    law: str | Law = "xavier",
    layout: str = "iid",
    n_replicas: int | None = None,
    seed: int = 0,
) -> Tensor:
    r"""Parameters of a network before training.

    .. math::
        \theta_{r,h} \sim \pi \;\text{(iid)}, \qquad \theta_{r,h} = \theta_h \;\text{(shared)}, \qquad
        \theta_{r,h} = \cos(\pi t_r)\,\theta_h + \sin(\pi t_r)\,\theta_h', \quad t_r = r/L \;\text{(smooth)}

    Independent heads are the paper's; only they need a mean field over heads *and* layers. Shared and smooth ones are what
    earlier literature takes limits of in depth alone; the smooth law keeps the variance of π at every t.

    Source: "Uniform scaling limits of AdamW-trained transformers", section 2, for iid; shared and smooth are *ours*.

    Args:
        n_layers, n_heads, head_dim, width: L, H, k, d, at least 1.
        law: "xavier", "uniform" on [-1, 1], or a function (generator, shape) -> array; the theory wants a bounded law.
        layout: "iid", "shared" or "smooth".
        n_replicas: None for one network, else a leading axis of independent ones; the first are the same for any number.
        seed: of the draw.

    Returns:
        (n_layers, n_heads, 4, head_dim, width), or with a leading axis, float64.

    Raises:
        InputError: a size below 1, an unknown law or layout, a law that gives another shape or numbers that are not finite.

    >>> initial_parameters(3, 2, 4, 8).shape, initial_parameters(3, 2, 4, 8, layout="shared")[:, 0, 0, 0, 0].unique().shape
    (torch.Size([3, 2, 4, 4, 8]), torch.Size([1]))
    """
    names = ("n_layers", "n_heads", "head_dim", "width")
    sizes = [
        whole_number(name, size, 1) for name, size in zip(names, (n_layers, n_heads, head_dim, width), strict=True)
    ]
    if layout not in LAYOUTS:
        raise InputError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    if n_replicas is None:
        return _one(sizes, law, layout, seed, 0)
    n_replicas = whole_number("n_replicas", n_replicas, 1)
    return torch.stack([_one(sizes, law, layout, seed, replica) for replica in range(n_replicas)])


def drawn_heads(n_heads: int, head_dim: int, width: int, law: str | Law, rng: np.random.Generator) -> Tensor:
    """(n_heads, 4, head_dim, width), independent heads of a law, float64.

    Raises:
        InputError: an unknown law, or one that gives another shape or numbers that are not finite.
    """
    if isinstance(law, str) and law not in LAWS:
        raise InputError(f"law must be one of {', '.join(LAWS)} or a function, got {law!r}")
    draw = LAWS[law] if isinstance(law, str) else law
    shape = (n_heads, 4, head_dim, width)
    heads = np.asarray(draw(rng, shape), dtype=np.float64)
    if heads.shape != shape or not np.isfinite(heads).all():
        raise InputError(f"a law must give finite numbers of shape {shape}, got shape {heads.shape}")
    return torch.from_numpy(heads)


def _one(sizes: list[int], law: str | Law, layout: str, seed: int, replica: int) -> Tensor:
    n_layers, n_heads, head_dim, width = sizes
    rng = generator(seed, "parameters", replica)
    n_drawn = {"iid": n_layers, "shared": 1, "smooth": 2}[layout]
    heads = drawn_heads(n_drawn * n_heads, head_dim, width, law, rng).view(n_drawn, n_heads, 4, head_dim, width)
    if layout == "smooth":
        angle = torch.arange(n_layers, dtype=torch.float64)[:, None, None, None, None] * (math.pi / n_layers)
        return angle.cos() * heads[0] + angle.sin() * heads[1]
    return heads if layout == "iid" else heads.repeat(n_layers, 1, 1, 1, 1)
