"""Where the heads of a kind are, in words."""

from __future__ import annotations

import numpy as np
import xarray as xr

# so many heads are named one by one
FEW = 6


def where_heads(dataset: xr.Dataset, inside: np.ndarray) -> str:
    """Each by name while they are few, else the layers that hold most of them; in brackets, with a space before.

    Args:
        dataset: with the coordinates layer and head.
        inside: (n_layers, n_heads) bool, at least one of them.
    """
    labels = dataset.layer.values
    if inside.sum() <= FEW:
        names = (f"{labels[i]}.{dataset['head'].values[j]}" for i, j in np.argwhere(inside))
        return f" (layer.head {', '.join(names)})"
    per_layer = inside.sum(axis=1)
    layers = np.flatnonzero(per_layer)
    if len(layers) == 1:
        return f" (all in layer {labels[layers[0]]})"
    low, high = _densest(per_layer)
    place = f"layer {labels[low]}" if low == high else f"layers {labels[low]}–{labels[high]}"
    return f" ({int(per_layer[low : high + 1].sum())} of them in {place})"


def _densest(per_layer: np.ndarray) -> tuple[int, int]:
    """The shortest run of layers that holds at least half of the heads."""
    n, half = len(per_layer), per_layer.sum() / 2
    for length in range(1, n + 1):
        for low in range(n - length + 1):
            if per_layer[low : low + length].sum() >= half:
                return low, low + length - 1
    return 0, n - 1
