"""How large a reproduction of "Uniform scaling limits of AdamW-trained transformers" is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from attnlim.lab.meanfield_grid import MeanfieldGrid
from attnlim.lab.meanfield_system import INPUTS, System


@dataclass(frozen=True)
class Size:
    """What is trained; what needs no training is the same at every size but for its number of samples.

    Attributes:
        name: the size as it is recorded.
        inits: initialisations of each network, the units of every interval.
        particles: of the limit at each of four nodes, where rates are judged.
        fewer_particles: where one small network stands for all.
        training_particles: of the curves of training.
        token_particles: where N grows, since attention costs N².
        adversary_particles: where the worst inputs are looked for.
        training_layers, training_heads, training_steps: of the curves of training onto the limit.
        rates_layers, rates_heads, rates_steps: of the fits; largest_product bounds L·H.
        largest_product: of them.
        tokens, widths, probe_steps: for independence of N and d, at L = 8 and H = 2.
        gammas, growing_tokens: for β = γ ln N.
        split_layers: L of split coupling, each against 2L.
        stack_layers, stack_heads: of the error's parts.
        replicas: networks behind the law of the diffusive regime.
        validation_layers: L, and M, of the residual perceptrons.
        validation_product: the largest L·M of them.
        validation_reference: L, M and runs of their reference.
    """

    name: str
    inits: int
    particles: int
    fewer_particles: int
    token_particles: int
    adversary_particles: int
    training_particles: int
    training_layers: tuple[int, ...]
    training_heads: tuple[int, ...]
    training_steps: tuple[int, ...]
    rates_layers: tuple[int, ...]
    rates_heads: tuple[int, ...]
    rates_steps: tuple[int, ...]
    largest_product: int
    tokens: tuple[int, ...]
    widths: tuple[int, ...]
    probe_steps: tuple[int, ...]
    gammas: tuple[float, ...]
    growing_tokens: tuple[int, ...]
    split_layers: tuple[int, ...]
    stack_layers: tuple[int, ...]
    stack_heads: tuple[int, ...]
    replicas: int
    validation_layers: tuple[int, ...]
    validation_product: int
    validation_reference: tuple[int, int, int]


LAPTOP = Size(
    name="laptop",
    inits=16,
    particles=4096,
    fewer_particles=256,
    token_particles=256,
    adversary_particles=1024,
    training_particles=2048,
    training_layers=(4, 16, 64),
    training_heads=(1, 4),
    training_steps=(0, 1, 4, 10),
    rates_layers=(4, 8, 16, 32, 64, 128, 256),
    rates_heads=(1, 4, 16),
    rates_steps=(0, 1, 4),
    largest_product=256,
    tokens=(4, 8, 16, 32),
    widths=(4, 8, 16, 32),
    probe_steps=(0, 2),
    gammas=(0.5, 1.0, 2.0),
    growing_tokens=(8, 16, 32),
    split_layers=(8, 16, 32, 64),
    stack_layers=(8, 16, 32),
    stack_heads=(1, 4),
    replicas=256,
    validation_layers=(1, 3, 10, 32, 100, 316),
    validation_product=3200,
    validation_reference=(64, 512, 6),
)
FULL = Size(
    name="full",
    inits=16,
    particles=10240,
    fewer_particles=512,
    token_particles=256,
    adversary_particles=1024,
    training_particles=8192,
    training_layers=(4, 16, 64, 256),
    training_heads=(1, 4, 16),
    training_steps=(0, 1, 4, 10, 20),
    rates_layers=(4, 8, 16, 32, 64, 128, 256, 512, 1024),
    rates_heads=(1, 4, 16),
    rates_steps=(0, 1, 4, 20),
    largest_product=1024,
    tokens=(4, 8, 32, 128, 512),
    widths=(4, 8, 16, 32, 64),
    probe_steps=(0, 2),
    gammas=(0.5, 1.0, 2.0),
    growing_tokens=(8, 32, 128),
    split_layers=(8, 16, 32, 64, 128),
    stack_layers=(8, 16, 32, 64, 128),
    stack_heads=(1, 4),
    replicas=1024,
    validation_layers=(1, 3, 10, 32, 100, 316),
    validation_product=316**2,
    validation_reference=(256, 1024, 8),
)
SIZES = {size.name: size for size in (LAPTOP, FULL)}

# where the error of one network stands for all, L and H
PROBE = (8, 2)
# learning rate, decay and eps at which the sum of squares of a 4 by 4 block acts as their mean does at .1, .1 and 1e-3
BLOCKWISE: dict[str, Any] = {"optimiser": "blockwise", "lr": 0.4, "weight_decay": 0.025, "eps": 4e-3}


def grids(size: Size, seed: int, threads: int) -> dict[str, MeanfieldGrid]:
    """The mean-field experiments of a reproduction by name."""
    return dict(_grids(size, seed, threads))


def _grids(size: Size, seed: int, threads: int) -> Iterator[tuple[str, MeanfieldGrid]]:
    many = System(steps=size.rates_steps, n_particles=size.particles, seed=seed)
    few = replace(many, n_particles=size.fewer_particles, steps=size.probe_steps)
    probe = MeanfieldGrid(
        few, None, (few.n_tokens,), (few.width,), PROBE[:1], PROBE[1:], (seed,), size.inits, None, False, threads, "cpu"
    )
    yield (
        "rates",
        replace(
            probe, system=many, n_layers=size.rates_layers, n_heads=size.rates_heads, max_product=size.largest_product
        ),
    )
    yield (
        "training",
        replace(
            probe,
            system=replace(many, steps=size.training_steps, target=1.0),
            n_layers=size.training_layers,
            n_heads=size.training_heads,
            n_inits=8,
        ),
    )
    enough = replace(few, n_particles=size.adversary_particles)
    yield "worst", replace(probe, system=enough, n_layers=(4, 8, 16), n_heads=(1, 4), n_inits=8, adversarial=True)
    yield "eps", replace(probe, system=replace(few, eps=1.0, steps=(0, 1)), n_layers=(4, 8, 16, 32), n_heads=(1, 4))
    long = replace(few, n_particles=size.token_particles, n_fresh=4)
    yield "tokens", replace(probe, system=long, n_tokens=size.tokens)
    wide = replace(few, inputs="sphere")
    yield "widths-adamw", replace(probe, system=wide, width=size.widths)
    yield "widths-blockwise", replace(probe, system=replace(wide, **BLOCKWISE), width=size.widths)
    for inputs in INPUTS:
        yield f"inputs-{inputs}", replace(probe, system=replace(few, inputs=inputs))
    for gamma in size.gammas:
        yield f"gamma-{gamma:g}", replace(probe, system=long, gamma=gamma, n_tokens=size.growing_tokens)
