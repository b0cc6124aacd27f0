"""A reproduction of the depth paper of seconds, and its evidence: enough for the rules, too little for the physics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from unittest import mock

import xarray as xr

from attnlim.core.cells import Arrays
from attnlim.lab import uniform_parts
from attnlim.lab.uniform_dataset import assemble
from attnlim.lab.uniform_run import make_uniform
from attnlim.lab.uniform_size import LAPTOP
from attnlim.lab.uniform_tasks import first_cells, measure_first, measure_second, second_cells

TINY = replace(
    LAPTOP,
    name="tiny",
    inits=4,
    particles=32,
    fewer_particles=16,
    token_particles=8,
    adversary_particles=16,
    training_particles=16,
    training_layers=(2, 4),
    training_heads=(1, 2),
    training_steps=(0, 2),
    rates_layers=(2, 4, 8, 16),
    rates_heads=(1, 2),
    rates_steps=(0, 1, 2),
    largest_product=16,
    tokens=(4, 8),
    widths=(4, 8),
    probe_steps=(0, 1),
    gammas=(0.5, 1.0),
    growing_tokens=(8, 16),
    split_layers=(2, 4),
    stack_layers=(4, 8),
    stack_heads=(1, 2),
    replicas=16,
    validation_layers=(1, 2, 4),
    validation_product=8,
    validation_reference=(4, 16, 2),
)


@contextmanager
def short_runs() -> Iterator[None]:
    """Stability over 16 steps."""
    with mock.patch.object(uniform_parts, "STABILITY_STEPS", 16):
        yield


@cache
def results() -> dict[str, Arrays]:
    """The arrays of every cell, computed once in a process."""
    with short_runs():
        found = {cell.key: measure_first(**cell.arguments) for cell in first_cells(TINY, 0, 1)}
    return found | {cell.key: measure_second(found, **cell.arguments) for cell in second_cells(TINY, 0, 1)}


def evidence() -> xr.Dataset:
    """The dataset without claims, a copy of its own for each caller."""
    return assemble(make_uniform(TINY, 0, 1), results()).copy(deep=True)
