"""Functions of depth t in [0, 1] by their values at a few Gauss-Legendre nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from attnlim.core.checks import InputError, whole_number

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Nodes:
    """Gauss-Legendre nodes on [0, 1]; a function is the polynomial through its values there.

    Attributes:
        t: (n_nodes,), ascending, inside (0, 1).
    """

    t: Floats

    def interpolation(self, at: ArrayLike) -> Tensor:
        """(n_times, n_nodes), float64: a function's values at times from its values at the nodes.

        Raises:
            InputError: times outside [0, 1].
        """
        return torch.from_numpy(np.polynomial.legendre.legval(_times(at), self._polynomials()).T)

    def integral(self, at: ArrayLike) -> Tensor:
        """(n_times, n_nodes), float64: integrals from 0 to each time from values at the nodes, exact for polynomials.

        Raises:
            InputError: times outside [0, 1].
        """
        integrated = np.polynomial.legendre.legint(self._polynomials(), lbnd=-1) / 2
        return torch.from_numpy(np.polynomial.legendre.legval(_times(at), integrated).T)

    def _polynomials(self) -> Floats:
        """Column j holds the Legendre coefficients of the polynomial that is 1 at node j and 0 at the others."""
        return np.asarray(np.linalg.inv(np.polynomial.legendre.legvander(2 * self.t - 1, len(self.t) - 1)), np.float64)


def gauss_nodes(n_nodes: int) -> Nodes:
    r"""Nodes whose rule integrates polynomials of degree 2J-1 exactly.

    A flow that is solved at them by collocation is exact to order 2J at t = 1, and to order J+1 in between.

    Source: Hairer, Nørsett and Wanner, Solving Ordinary Differential Equations I, II.7 (Gauss methods).

    Args:
        n_nodes: J, at least 1.

    Raises:
        InputError: below 1.

    >>> nodes = gauss_nodes(3)
    >>> (nodes.integral([0.5, 1.0]) @ torch.from_numpy(nodes.t**2)).mul(24).round(decimals=9).tolist()
    [1.0, 8.0]
    """
    points, _ = np.polynomial.legendre.leggauss(whole_number("n_nodes", n_nodes, 1))
    return Nodes((points + 1) / 2)


def _times(at: ArrayLike) -> Floats:
    times = np.atleast_1d(np.asarray(at, dtype=np.float64))
    if not ((times >= 0) & (times <= 1)).all():
        raise InputError(f"t must lie in [0, 1], got {times.min():.6g} to {times.max():.6g}; it is depth over L")
    return 2 * times - 1
