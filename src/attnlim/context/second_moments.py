r"""|C_i|_F² for the covariance C_i = Σ_k A_ik (y_k - m_i)(y_k - m_i)^T that every attention row has.

Three ways to the same number, by what they cost a pair of tokens and β: the matrix itself, d(d+1) operations; the
squared Gram matrix between the keys, 2n; random probes, 2d each, unbiased.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from attnlim.context.attending import boltzmann, key_tiles, row_blocks
from attnlim.context.centred import CentredTokens
from attnlim.core.seeds import generator

# weights of one block of rows that the Gram way holds at a time, over all β
_WEIGHTS = 2**25


class SecondMoments(Protocol):
    """Features of the keys whose attended means give |C_i|²."""

    n_features: int

    def features(self, keys: slice) -> Tensor:
        """(n_keys, n_features)."""

    def squares(self, moments: Tensor, mean: Tensor) -> Tensor:
        """(n_samples, n_rows), float64, |C_i|² of each sample, from (n_rows, n_features) and (n_rows, d)."""


class EveryEntry:
    r"""The entries of C on and above the diagonal, those above times √2."""

    def __init__(self, tokens: CentredTokens) -> None:
        self.offset = tokens.offset
        self.row, self.column = torch.triu_indices(tokens.width, tokens.width, device=tokens.offset.device)
        self.scale = 1 + (math.sqrt(2) - 1) * (self.row != self.column).to(tokens.offset)
        self.n_features = len(self.row)

    def features(self, keys: slice) -> Tensor:
        return self._products(self.offset[keys])

    def squares(self, moments: Tensor, mean: Tensor) -> Tensor:
        return (moments - self._products(mean)).double().square().sum(dim=1)[None]

    def _products(self, offset: Tensor) -> Tensor:
        return offset[:, self.row].mul_(self.scale).mul_(offset[:, self.column])


class Probes:
    r"""C z for random signs z: E|Cz|² = |C|_F²."""

    def __init__(self, tokens: CentredTokens, n_probes: int, seed: int) -> None:
        signs = generator(seed, "probes", n_probes).choice([-1.0, 1.0], (tokens.width, n_probes))
        self.offset = tokens.offset
        self.probes = torch.from_numpy(signs).to(tokens.offset)
        self.n_features = tokens.width * n_probes

    def features(self, keys: slice) -> Tensor:
        return self._products(self.offset[keys]).flatten(1)

    def squares(self, moments: Tensor, mean: Tensor) -> Tensor:
        found = moments.view(len(moments), self.probes.shape[1], -1) - self._products(mean)
        return found.double().square().sum(dim=2).T

    def _products(self, offset: Tensor) -> Tensor:
        return (offset @ self.probes)[:, :, None] * offset[:, None, :]


def gram_squares(
    tokens: CentredTokens,
    betas: Sequence[float],
    causal: bool,
    index: Tensor,
    partition: Tensor,
    mean: Tensor,
    n_keys: int,
) -> Tensor:
    r"""|C_i|² of a block of rows from the keys' squared Gram matrix, never held whole.

    .. math::
        |C_i|_F^2 = \sum_{kl} A_{ik} A_{il} \langle c_k, c_l\rangle^2 - 2\sum_k A_{ik} \langle c_k, \bar c_i\rangle^2
        + |\bar c_i|^4, \qquad \bar c_i = \sum_k A_{ik} c_k

    Args:
        tokens, betas, causal: as for :func:`attnlim.context.attending.attend`.
        index: (n_rows,), the rows.
        partition, mean: (n_betas, n_rows) and (n_betas, n_rows, d), of these rows.
        n_keys: keys at a time.

    Returns:
        (n_betas, n_rows), float64.
    """
    wide = partition.to(_wide(partition))
    result = torch.empty_like(wide)
    most = max(1, _WEIGHTS // (tokens.n_tokens * len(betas)))
    for some, lanes in row_blocks(index, most):
        n_rows = some.stop - some.start
        tiles = [
            (
                keys,
                torch.stack(
                    [each.flatten(0, 1)[:n_rows].clone() for each in boltzmann(distance, betas, scratch, hidden)]
                ),
            )
            for keys, hidden, distance, scratch in key_tiles(tokens, lanes, causal, n_keys)
        ]
        kernel_sum, mean_sum = torch.zeros_like(wide[:, some]), torch.zeros_like(wide[:, some])
        for left, left_weights in tiles:
            gathered = torch.zeros_like(left_weights)
            for right, right_weights in tiles:
                kernel = (tokens.offset[right] @ tokens.offset[left].T).square_()
                gathered.flatten(0, 1).addmm_(right_weights.flatten(0, 1), kernel)
            kernel_sum += gathered.mul_(left_weights).sum(dim=2)
            along = torch.matmul(mean[:, some], tokens.offset[left].T).square_()
            mean_sum += along.mul_(left_weights).sum(dim=2)
        length = mean[:, some].to(wide).square().sum(dim=2)
        result[:, some] = kernel_sum / wide[:, some] ** 2 - 2 * mean_sum / wide[:, some] + length**2
    return result.clamp_(min=0.0)  # rounding may leave -eps where a row sees one direction alone


def _wide(x: Tensor) -> torch.dtype:
    return torch.float32 if x.device.type == "mps" else torch.float64
