"""The Jacobian energy η of a layer, exact and in parts: how much gradient passes through it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.context.arguments import Beta, inverse_temperatures, tile_shape
from attnlim.context.attending import TILE
from attnlim.context.centred import CentredTokens
from attnlim.context.row_energies import RowEnergies, row_energies
from attnlim.context.row_sample import Rows, sampled_rows, unseen_share
from attnlim.context.simplex_arguments import residual_factor
from attnlim.core.checks import whole_number


@dataclass(frozen=True)
class JacobianEnergy:
    """The result of :func:`jacobian_energy`: numbers for one β, arrays (n_betas,) for a sequence; dimensionless.

    Attributes:
        total: η.
        attention: the terms with neither β nor α: what passes where the weights are held.
        covariance: every term with β: what passes through the weights.
        residual: the rest, with α and without β.
        distance: the energy of J less the Jacobian of x → x/|x| + αx, per entry as η: Theorem 2.5. Where it vanishes,
            rounding leaves up to 4 eps (1 + β(1-ρ̂)) ⟨1/|x|²⟩ of it, up to 5e-5 in float32 and 1e-13 in float64 at
            β(1-ρ̂) ≤ 100 and |x| = 1 (measured): inside ``error``, below which nothing is left to be read.
        standard_error: of ``total``: over drawn rows and over probes; exactly 0 with neither, NaN for rows that are named,
            which are a choice and no sample.
        error: estimate of the rounding error of ``total``, see :func:`rounding_error`; it holds for each part and for
            ``distance``.
    """

    total: Any
    attention: Any
    covariance: Any
    residual: Any
    distance: Any
    standard_error: Any
    error: Any

    def at(self, k: int) -> JacobianEnergy:
        """The result at the k-th β alone."""
        return JacobianEnergy(**{name: values[k].item() for name, values in vars(self).items()})

    def __float__(self) -> float:
        if not isinstance(self.total, float):
            raise TypeError(f"this energy has {len(self.total)} values, one a beta; take .total")
        return self.total


def jacobian_energy(
    x: Tensor | np.ndarray,
    beta: Beta,
    alpha: float = 0.0,
    causal: bool = False,
    rows: Rows = None,
    *,
    probes: int | None = None,
    seed: int = 0,
    tile: tuple[int, int] = TILE,
) -> JacobianEnergy:
    r"""The mean squared singular value of the layer's Jacobian.

    .. math:: \eta = \frac{|\nabla_X X'|_F^2}{nd}

    It goes to 0, a quarter and one of (1-1/d)/q below, at and above the threshold of a simplex at α = 0.

    Source: "Critical attention scaling", Figure 2, Theorems 2.4 and 2.5; the closed form is
    [*derived*](../derivations.md#jacobian-blocks), see :func:`attnlim.context.row_energies.row_energies`, and equals
    automatic differentiation in the tests.

    Assumes: K = Q = V = I, as in :func:`attnlim.context.layer`.

    Args:
        x: (n, d), tokens, tensor or array, any unit, float32 or float64; n ≥ 2, d ≥ 1, finite, no zero norm.
        beta: inverse temperature or a sequence of them, dimensionless, at least 0.
        alpha: residual factor, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone.
        rows: None for all rows; a number of rows to draw, at least 2; or the indices of at least 2, counted from 0, whose
            mean is then returned, without a standard error.
        probes: None for the exact energy; a number of random probes, at least 2, for the one costly term,
            |C_i|_F², where both d² and n are large.
        seed: of the sample and the probes.
        tile: rows and keys at a time. It does not change the result beyond rounding.

    Returns:
        A :class:`JacobianEnergy`.

    Raises:
        InputError: bad tokens, ``beta``, ``alpha``, ``rows`` or ``probes``.

    Cost: n²(6d + min(d², 2n) + about 15) operations a β, with probes 2d each in place of the minimum; memory n·d a β
    and tiles, never n².
    Precision: ``error`` is a first-order estimate. Twin: :func:`attnlim.context.naive.jacobian_energy`.

    >>> energy = jacobian_energy(torch.eye(2, dtype=torch.float64), beta=0.0)
    >>> round(energy.total, 9), round(energy.covariance, 9), energy.standard_error
    (0.25, 0.0, 0.0)
    """
    tokens = CentredTokens.of(x)
    betas, single = inverse_temperatures(beta, tokens.x.dtype)
    alpha, tile = residual_factor(alpha), tile_shape(tile)
    if probes is not None:
        probes = whole_number("probes", probes, 2, advice="use probes=None for the exact energy")
    chosen = sampled_rows(rows, tokens.n_tokens, seed, least=2)
    chosen = None if chosen is None else chosen.to(tokens.x.device)
    found = row_energies(tokens, betas, alpha, causal, chosen, probes, seed, tile)
    result = _result(found, tokens, betas, unseen_share(rows, tokens.n_tokens), probes)
    return result.at(0) if single else result


def _result(
    found: RowEnergies, tokens: CentredTokens, betas: list[float], unseen: float, probes: int | None
) -> JacobianEnergy:
    d = tokens.width
    parts = {name: getattr(found, name) / d for name in ("attention", "covariance", "residual", "distance")}
    total = parts["attention"] + parts["covariance"] + parts["residual"]
    variance = torch.zeros(len(betas), dtype=total.dtype, device=total.device)
    if unseen:
        variance += unseen * total.var(dim=1) / total.shape[1]
    if probes is not None:
        variance += (found.probed / d).var(dim=1) / probes
    means = {name: values.mean(dim=1).cpu().numpy() for name, values in parts.items()}
    eta = total.mean(dim=1).cpu().numpy()
    # of η where the layer only normalises; on a line the sum is right and small
    scale = float(tokens.norm.pow(-2).mean())
    error = np.array(
        [
            rounding_error(b, tokens.spread, max(e, scale), tokens.x.dtype)
            for b, e in zip(betas, eta.tolist(), strict=True)
        ]
    )
    return JacobianEnergy(eta, **means, standard_error=variance.sqrt().cpu().numpy(), error=error)


def rounding_error(beta: float, spread: float, eta: float, dtype: torch.dtype) -> float:
    r"""First-order estimate of the rounding error of η.

    .. math:: |\Delta\eta| \lesssim 4\,\epsilon\,(4 + \beta(1-\hat\rho))^2\, \max(\eta, \langle 1/|x|^2\rangle)

    The covariance part is β² times squares of second moments of size 1-ρ̂, which are off by a few eps of that.

    Source: [*derived*](../derivations.md#contraction) to first order; held by tests against float64.
    """
    exponent = 4 + beta * spread
    return 4 * torch.finfo(dtype).eps * exponent * exponent * eta
