"""The grid of a mean-field experiment: which networks are trained, against which limits; checked, and cut into cells."""

from __future__ import annotations

import importlib.metadata
import itertools
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from attnlim.core.cells import Cell
from attnlim.core.checks import InputError, one_of, real_number, whole_number
from attnlim.depth.adam_bound import decay_rates, step_and_decay
from attnlim.depth.initialisation import LAWS
from attnlim.lab.devices import usable_device
from attnlim.lab.meanfield_system import INPUTS, OPTIMISERS, System

SCHEMA = 1
# plotly.js inside the report, the figures, and some air
REPORT_BYTES = 10 * 2**20
# two sets of particles, and a pair of node counts with the same heads at every node
SETS = ("a", "b", "few-nodes", "more-nodes")
MORE_NODES = 2


@dataclass(frozen=True)
class MeanfieldGrid:
    """Everything that decides the numbers of a mean-field experiment, checked.

    Attributes:
        system: all that does not vary; its sizes and seed are those of the first of each list.
        gamma: β/ln N where β follows N, else None.
        n_tokens, width, n_layers, n_heads, seeds: what varies, ascending.
        n_inits: initialisations of each network.
        max_product: networks of a larger L·H are left out; None: all.
        adversarial: whether the worst inputs are looked for.
        threads: of torch, inside a cell.
        device: where networks and limits run.
    """

    system: System
    gamma: float | None
    n_tokens: tuple[int, ...]
    width: tuple[int, ...]
    n_layers: tuple[int, ...]
    n_heads: tuple[int, ...]
    seeds: tuple[int, ...]
    n_inits: int
    max_product: int | None
    adversarial: bool
    threads: int
    device: str

    def systems(self) -> list[System]:
        """One for each seed, N and d: what shares a limit."""
        return [
            replace(
                self.system,
                seed=seed,
                n_tokens=n,
                width=d,
                beta=self.system.beta if self.gamma is None else self.gamma * math.log(n),
            )
            for seed, n, d in itertools.product(self.seeds, self.n_tokens, self.width)
        ]

    def limit_cells(self) -> list[Cell]:
        """Four limits a system: the reference, another set of particles, and a pair for the nodes' own error."""
        found = []
        for system in self.systems():
            few = replace(system, n_particles=max(2, system.n_particles // 4 // 2 * 2))
            more = replace(few, n_nodes=few.n_nodes + MORE_NODES)
            for name, solved in zip(SETS, (system, system, few, more), strict=True):
                arguments = {
                    "system": solved,
                    "particle_seed": system.seed + (1 if name == "b" else 0),
                    "shared": name.endswith("nodes"),
                    "keep_particles": self.adversarial and name == "a",
                    "device": self.device,
                }
                found.append(Cell(limit_key(system, name), arguments, limit_cost(solved)))
        return found

    def network_cells(self) -> list[Cell]:
        """One for each (L, H) of a system, cheap ones first."""
        return [
            Cell(
                network_key(system, n_layers, n_heads),
                {
                    "system": system,
                    "n_layers": n_layers,
                    "n_heads": n_heads,
                    "n_inits": self.n_inits,
                    "adversarial": self.adversarial,
                    "device": self.device,
                },
                network_cost(system, n_layers, n_heads, self.n_inits),
            )
            for system in self.systems()
            for n_layers, n_heads in self.sizes()
        ]

    def sizes(self) -> list[tuple[int, int]]:
        """(L, H) of the networks, by their product."""
        pairs = itertools.product(self.n_layers, self.n_heads)
        return sorted((pair for pair in pairs if math.prod(pair) <= (self.max_product or math.inf)), key=math.prod)

    def cells(self) -> list[Cell]:
        """All of them; networks need the limits first."""
        return self.limit_cells() + self.network_cells()

    def bytes_on_disk(self) -> int:
        """What the run folder and its cells take at most."""
        steps = len(self.system.steps)
        flows = sum(
            3 * 8 * (cell.arguments["system"].n_nodes + 2)
            * (s.n_tokens * s.width * ((s.n_steps + 1) * s.n_sequences + steps * s.n_fresh))
            for cell in self.limit_cells()
            for s in [cell.arguments["system"]]
        )  # fmt: skip
        particles = sum(s.n_particles * s.n_nodes * 32 * s.head_dim * s.width for s in self.systems()) * steps
        numbers = len(self.network_cells()) * (12 * 400 + 8 * self.n_inits * (steps * 18 + self.system.n_steps + 1))
        return int(flows + particles * self.adversarial + 4 * numbers + REPORT_BYTES)

    def identity(self) -> dict[str, Any]:
        """What a resumed run must share with the one that was interrupted."""
        system = asdict(self.system)
        for name in ("n_tokens", "width", "seed"):
            del system[name]
        names = ("gamma", "n_inits", "max_product", "adversarial", "threads", "device")
        lists = ("n_tokens", "width", "n_layers", "n_heads", "seeds")
        return {
            "kind": "attnlim.meanfield",
            "schema": SCHEMA,
            **{package: importlib.metadata.version(package) for package in ("attnlim", "torch", "numpy")},
            **{name: list(value) if isinstance(value, tuple) else value for name, value in system.items()},
            **{name: list(getattr(self, name)) for name in lists},
            **{name: getattr(self, name) for name in names},
        }


def limit_key(system: System, name: str) -> str:
    """The name of a limit's cell.

    >>> limit_key(System(), "a")
    'limit-seed0-N8-d4-a'
    """
    return f"limit-seed{system.seed}-N{system.n_tokens}-d{system.width}-{name}"


def network_key(system: System, n_layers: int, n_heads: int) -> str:
    """The name of a network's cell.

    >>> network_key(System(), 16, 4)
    'network-seed0-N8-d4-L16-H4'
    """
    return f"network-seed{system.seed}-N{system.n_tokens}-d{system.width}-L{n_layers}-H{n_heads}"


def make_grid(
    n_layers: Iterable[int] | None = None,
    n_heads: Iterable[int] | None = None,
    n_tokens: Iterable[int] | None = None,
    width: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
    seeds: Iterable[int] | None = None,
    *,
    gamma: float | None = None,
    n_inits: int = 16,
    max_product: int | None = None,
    adversarial: bool = False,
    threads: int = 1,
    device: str | None = None,
    elsewhere: bool = False,
    **system: Any,
) -> MeanfieldGrid:
    """Check everything that a mean-field experiment needs; arguments and errors as for :func:`attnlim.lab.meanfield`."""
    layers = _ascending("--layers", (4, 16, 64) if n_layers is None else n_layers, 1)
    heads = _ascending("--heads", (1, 4) if n_heads is None else n_heads, 1)
    tokens = _ascending("--n", (8,) if n_tokens is None else n_tokens, 1)
    widths = _ascending("--d", (4,) if width is None else width, 1)
    at = _ascending("--steps", (0, 1, 4) if steps is None else steps, 0)
    which = _ascending("--seeds", (0,) if seeds is None else seeds, 0)
    chosen = _system(system, at)
    if gamma is not None:
        gamma = real_number("--gamma", gamma, above=0.0, closed=True)
        if "beta" in system:
            raise InputError("--beta and --gamma say the same thing; give one of them")
        if tokens[0] < 2:
            raise InputError("--gamma needs at least 2 tokens, since β = γ ln N; use --beta")
    first = replace(chosen, n_tokens=tokens[0], width=widths[0], seed=which[0])
    return MeanfieldGrid(
        first, gamma, tokens, widths, layers, heads, which, whole_number("--inits", n_inits, 2),
        None if max_product is None else whole_number("--max-product", max_product, layers[0] * heads[0]), bool(adversarial),
        whole_number("--threads", threads, 1), usable_device(device, elsewhere),
    )  # fmt: skip


def _system(given: dict[str, Any], steps: tuple[int, ...]) -> System:
    known = System(steps=steps, **given)
    decay_rates(known.betas)
    step_and_decay(known.lr, known.weight_decay)
    return replace(
        known,
        head_dim=whole_number("--k", known.head_dim, 1),
        beta=real_number("--beta", known.beta, above=0.0, closed=True),
        inputs=one_of("--inputs", known.inputs, INPUTS),
        law=one_of("--law", known.law, LAWS),
        optimiser=one_of("--optimiser", known.optimiser, OPTIMISERS),
        eps=real_number("--eps", known.eps, above=0.0),
        target=real_number("--target", known.target, above=0.0, closed=True),
        n_sequences=whole_number("--sequences", known.n_sequences, 1),
        n_fresh=whole_number("--fresh", known.n_fresh, 1),
        n_particles=whole_number("--particles", known.n_particles, 8) // 2 * 2,
        n_nodes=whole_number("--nodes", known.n_nodes, 1),
    )


def _ascending(name: str, values: Iterable[int], least: int) -> tuple[int, ...]:
    found = tuple(sorted({whole_number(name, value, least) for value in values}))
    if not found:
        raise InputError(f"{name} needs at least one value, got none")
    return found


def limit_cost(system: System) -> float:
    """Relative time: heads times sequences times what attention takes, for some eight iterations a step and side."""
    sequences = 4 * (system.n_steps + 1) * system.n_sequences + 4 * len(system.steps) * system.n_fresh
    return 8.0 * system.n_particles * system.n_nodes * sequences * _attention(system)


def network_cost(system: System, n_layers: int, n_heads: int, n_inits: int) -> float:
    """Relative time of a network's cell, in the same unit."""
    sequences = 4 * (system.n_steps + 1) * system.n_sequences + 4 * len(system.steps) * system.n_fresh
    each = n_layers * sequences * _attention(system)
    # a layer of few heads takes a call's own time, as much as some 64 heads
    return each * max(n_inits * n_heads, 64)


def _attention(system: System) -> float:
    return float(system.n_tokens * (system.n_tokens + 8) * (system.width + 4))
