"""How training passes differences on: measured ratios that the proof bounds at every step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnlim.core.checks import InputError
from attnlim.depth.collocated_flow import LimitFlow


@dataclass(frozen=True)
class StabilityRatios:
    """Measured ratios after τ steps; NaN where both sides are still zero.

    Attributes:
        parameters: largest |θ - ϑ|_F over the sum of its past gradient differences, of one head (Lemma 28).
        depth: largest distance of ν_t and ν_s over |t - s|, by the coupling of particles that began alike (Lemma 29).
        gradients: largest |g_ν(ϑ) - g_ν̄(θ)|_F over |θ - ϑ|_F + the error of tokens and adjoint (Lemma 30).
    """

    parameters: float
    depth: float
    gradients: float


class StabilityMeter:
    r"""Follows a run and its shadow heads, and says at every step how differences grew.

    .. math::
        |\theta_\tau - \vartheta_\tau| \le C \sum_{j<\tau} |\Delta g_j|, \qquad
        W_2(\nu_{t,\tau}, \nu_{s,\tau}) \le C |t-s|, \qquad
        |\Delta g| \le C \big(|\theta - \vartheta| + \sup |X - \bar X| + \sup |a - \bar a|\big)

    Source: "Uniform scaling limits of AdamW-trained transformers", Lemmas 28, 29 and 30; no constant of theirs is claimed.

    >>> meter = StabilityMeter()
    """

    def __init__(self) -> None:
        self._gradient_differences: Tensor | None = None
        self._alike = False

    def measure(
        self, theta: Tensor, shadows: Tensor, gradient: Tensor, flow: LimitFlow, error: Tensor
    ) -> StabilityRatios:
        """The ratios after τ steps; call it once a step, before the next one.

        Args:
            theta, shadows: (n_replicas, n_layers, n_heads, 4, head_dim, width).
            gradient: as ``theta``, the network's.
            flow: of the training sequences, with its adjoint; ``depth`` is NaN unless its particles began alike at
                every node.
            error: (n_replicas,), sup |X - X̄| + sup |a - ā| on the training sequences.

        Raises:
            InputError: shapes that differ.
        """
        if shadows.shape != theta.shape or gradient.shape != theta.shape:
            raise InputError(f"shadows and gradient must have the shape of theta {tuple(theta.shape)}")
        n_replicas, n_layers, n_heads = theta.shape[:3]
        apart = _norm(theta - shadows)
        past = self._gradient_differences
        if past is None:  # the first step: nothing has moved yet
            self._alike = bool((flow.particles == flow.particles[:1]).all())
        parameters = float("nan") if past is None else _largest(apart, past)
        times = torch.arange(n_layers, dtype=torch.float64).numpy() / n_layers
        heads = shadows.transpose(0, 1).flatten(1, 2)
        of_shadows = flow.gradient(heads, times).view(n_layers, n_replicas, n_heads, *theta.shape[3:]).transpose(0, 1)
        difference = _norm(of_shadows - gradient)
        gradients = _largest(difference, apart + error[:, None, None])
        self._gradient_differences = difference if past is None else past + difference
        return StabilityRatios(parameters, _over_depth(flow) if self._alike else float("nan"), gradients)


def _norm(theta: Tensor) -> Tensor:
    """Frobenius norm of all four matrices of a head."""
    norm: Tensor = torch.linalg.vector_norm(theta.flatten(-3), dim=-1)
    return norm


def _largest(above: Tensor, below: Tensor) -> float:
    known = below > 0
    return float((above[known] / below[known]).max()) if bool(known.any()) else float("nan")


def _over_depth(flow: LimitFlow) -> float:
    t = torch.from_numpy(flow.nodes.t)
    particles = flow.particles.flatten(2)
    apart = (particles[:, None] - particles[None]).square().sum(dim=-1).mean(dim=-1).sqrt()
    between = (t[:, None] - t[None]).abs()
    return _largest(apart[between > 0], between[between > 0])
