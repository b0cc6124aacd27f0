"""Particles that stand for the law of the parameters in the limit."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlim.core.checks import InputError, whole_number
from attnlim.core.seeds import generator
from attnlim.depth.arguments import OUTPUT
from attnlim.depth.initialisation import Law, drawn_heads


def limit_particles(
    n_particles: int,
    n_nodes: int,
    head_dim: int,
    width: int,
    law: str | Law = "xavier",
    orbits: bool | None = None,
    shared: bool = False,
    seed: int = 0,
) -> Tensor:
    r"""Heads of the law π at every node of t.

    With orbits every head stands beside its mirror image, O → -O, so that their mean output is zero to rounding:
    without training the limit is the identity. The other sign flips, (O,V) → (-O,-V) and (Q,K) → (-Q,-K), leave a head
    as it is and would only count it twice.

    Source: *ours*; "Uniform scaling limits of AdamW-trained transformers", section 2, for ν_{t,0} = π.

    Args:
        n_particles: at each node, at least 1; even with orbits.
        n_nodes: nodes of t, at least 1.
        head_dim, width: k and d, at least 1.
        law: as for :func:`attnlim.depth.initial_parameters`.
        orbits: whether π is symmetric under O → -O and mirror images are used; None: yes for the named laws, which
            are, no for functions.
        shared: whether all nodes begin with the same heads. Independent ones average n_nodes times as much noise away,
            shared ones are smooth in t.
        seed: of the draw; another stream than that of :func:`attnlim.depth.initial_parameters`.

    Returns:
        (n_nodes, n_particles, 4, head_dim, width), float64.

    Raises:
        InputError: a size below 1, an odd number of particles with orbits, an unknown law.

    >>> limit_particles(4, 3, 2, 5).shape
    torch.Size([3, 4, 4, 2, 5])
    """
    n_particles, n_nodes = whole_number("n_particles", n_particles, 1), whole_number("n_nodes", n_nodes, 1)
    head_dim, width = whole_number("head_dim", head_dim, 1), whole_number("width", width, 1)
    orbits = isinstance(law, str) if orbits is None else orbits
    if orbits and n_particles % 2:
        raise InputError(
            f"n_particles must be even with orbits, got {n_particles}; a head and its mirror image are two"
        )
    drawn = n_particles // 2 if orbits else n_particles
    sets = [
        drawn_heads(drawn, head_dim, width, law, generator(seed, "particles", 0 if shared else node))
        for node in range(n_nodes)
    ]
    heads = torch.stack(sets)
    if not orbits:
        return heads
    mirrored = heads.clone()
    mirrored[:, :, OUTPUT] *= -1
    return torch.cat([heads, mirrored], dim=1)
