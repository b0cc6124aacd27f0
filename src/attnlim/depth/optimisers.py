"""AdamW, blockwise AdamW and SGD in mean-field units: they take plain gradients and rescale them by L·H."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor

from attnlim.core.checks import InputError, real_number, whole_number
from attnlim.depth.adam_bound import adam_bound_at, decay_rates, step_and_decay
from attnlim.depth.arguments import all_finite

BLOCK_NORMS = ("sum", "mean")


class MeanFieldOptimiser(torch.optim.Optimizer):
    """What all three share: the factor L·H, decoupled decay, the loop over parameters.

    ``largest_step`` is the largest |m̂|/(√v̂ + ε) of the last step over all parameters, in blockwise AdamW the largest
    Frobenius norm; NaN before the first.
    """

    largest_step = math.nan

    def __init__(self, params: Iterable[Any], n_layers: int, n_heads: int, defaults: dict[str, Any]) -> None:
        n_layers, n_heads = whole_number("n_layers", n_layers, 1), whole_number("n_heads", n_heads, 1)
        super().__init__(params, {"n_layers": n_layers, "n_heads": n_heads, **defaults})
        for group in self.param_groups:
            self._check(group)

    def _check(self, group: dict[str, Any]) -> None:
        step_and_decay(group["lr"], group["weight_decay"])

    def _direction(self, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        raise NotImplementedError

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One step with the plain gradients in ``.grad``.

        Raises:
            InputError: a learning rate that a scheduler made too large, or a gradient that is not finite.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        largest = 0.0
        for group in self.param_groups:
            self._check(group)
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                gradient = parameter.grad * (group["n_layers"] * group["n_heads"])
                if not all_finite(gradient):
                    raise InputError("gradients must be finite, got NaN or inf; the run has diverged")
                direction = self._direction(gradient, self.state[parameter], group)
                largest = max(largest, self.size(direction))
                parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(direction, alpha=group["lr"])
        self.largest_step = largest
        return loss

    def size(self, values: Tensor) -> float:
        """What the bounds are about, of a step or of parameters: the largest entry."""
        return float(values.abs().max())

    def bound(self) -> float:
        """The largest that ``largest_step`` can be by now; infinite where no bound holds."""
        return math.inf


class AdamW(MeanFieldOptimiser):
    r"""AdamW on LH-rescaled gradients, with decoupled weight decay.

    .. math::
        m_\tau = \beta_1 m_{\tau-1} + (1-\beta_1) G, \quad v_\tau = \beta_2 v_{\tau-1} + (1-\beta_2) G^2, \quad
        \theta_{\tau+1} = (1 - \eta\lambda)\theta_\tau - \eta\,\frac{\hat m_\tau}{\sqrt{\hat v_\tau} + \epsilon},
        \qquad G = LH\,\nabla\ell

    The same as ``torch.optim.AdamW`` on plain gradients with its ``eps`` divided by LH.

    Source: "Uniform scaling limits of AdamW-trained transformers", appendix B; the equivalence is
    [*derived*](../depth-derivations.md#optimisers).

    Args:
        params: parameters or groups of them; their ``.grad`` is what autograd leaves.
        n_layers, n_heads: L and H, at least 1.
        lr: learning rate η, at least 0.
        betas: (β_1, β_2) with β_1² < β_2.
        eps: ε in mean-field units, above 0.
        weight_decay: λ, at least 0, ηλ ≤ 1.

    Raises:
        InputError: anything else.

    >>> theta = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    >>> theta.grad = torch.tensor([1.0, -1.0], dtype=torch.float64)
    >>> optimiser = AdamW([theta], n_layers=8, n_heads=4, lr=0.5, eps=1e-12)
    >>> optimiser.step(); theta.detach().round(decimals=6).tolist()    # the first step goes by the sign
    [0.5, 1.5]
    """

    def __init__(
        self,
        params: Iterable[Any],
        n_layers: int,
        n_heads: int,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, n_layers, n_heads, defaults)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        decay_rates(group["betas"])
        real_number("eps", group["eps"], above=0.0)

    def _direction(self, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        beta_1, beta_2 = group["betas"]
        square = self._square(gradient)
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(gradient)
            state["exp_avg_sq"] = torch.zeros_like(square)
        state["step"] += 1
        state["exp_avg"].lerp_(gradient, 1 - beta_1)
        state["exp_avg_sq"].mul_(beta_2).add_(square, alpha=1 - beta_2)
        mean: Tensor = state["exp_avg"] / (1 - beta_1 ** state["step"])
        square_mean: Tensor = state["exp_avg_sq"] / (1 - beta_2 ** state["step"])
        return mean.div_(square_mean.sqrt_().add_(float(group["eps"])))

    def _square(self, gradient: Tensor) -> Tensor:
        return gradient.square()

    def bound(self) -> float:
        steps = [
            adam_bound_at(self.state[parameter]["step"], *group["betas"])
            for group in self.param_groups
            for parameter in group["params"]
            if self.state[parameter]
        ]
        return max(steps, default=math.inf)


class BlockwiseAdamW(AdamW):
    r"""AdamW with one second moment for every block: a layer's and head's query, key, value or output matrix.

    .. math:: v_\tau = \beta_2 v_{\tau-1} + (1-\beta_2)\, |G|_F^2 \quad \text{or} \quad |G|_F^2/(kd)

    Every entry of a block moves by the same factor. The two norms are one algorithm under η_sum = η_mean √(kd),
    λ_sum = λ_mean/√(kd) and ε_sum = ε_mean √(kd).

    Source: "Uniform scaling limits of AdamW-trained transformers", appendix B; "sum" is *inferred* as the form that
    frees the bounds of d and k, "mean" is the usual blockwise Adam.

    Args:
        params: parameters whose last two axes are a block.
        block_norm: "sum" or "mean".
        n_layers, n_heads, lr, betas, eps, weight_decay: as for :class:`AdamW`.

    Raises:
        InputError: anything else, or a parameter with fewer than two axes.

    >>> theta = torch.nn.Parameter(torch.zeros(1, 2, dtype=torch.float64))
    >>> theta.grad = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    >>> BlockwiseAdamW([theta], 1, 1, lr=1.0, eps=1e-12).step(); theta.detach().round(decimals=6).tolist()
    [[-0.6, -0.8]]
    """

    def __init__(
        self,
        params: Iterable[Any],
        n_layers: int,
        n_heads: int,
        block_norm: str = "sum",
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if block_norm not in BLOCK_NORMS:
            raise InputError(f"block_norm must be one of {', '.join(BLOCK_NORMS)}, got {block_norm!r}")
        self.block_norm = block_norm
        super().__init__(params, n_layers, n_heads, lr, betas, eps, weight_decay)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        for parameter in group["params"]:
            if parameter.ndim < 2:
                raise InputError(f"a block needs two axes, got a parameter of shape {tuple(parameter.shape)}")

    def _square(self, gradient: Tensor) -> Tensor:
        square = gradient.square()
        return (
            square.sum(dim=(-2, -1), keepdim=True)
            if self.block_norm == "sum"
            else square.mean(dim=(-2, -1), keepdim=True)
        )

    def size(self, values: Tensor) -> float:
        """The largest root of a block's squares, summed or averaged as ``block_norm`` says."""
        return math.sqrt(float(self._square(values).max()))


class SGD(MeanFieldOptimiser):
    """Gradient descent on LH-rescaled gradients with decoupled weight decay, for contrast: its step has no bound.

    Source: *ours*; plain SGD with the learning rate multiplied by LH and weight decay divided by it. What other optimisers
    need for this is [*derived*](../depth-derivations.md#scale-rules).

    Args:
        params, n_layers, n_heads, lr, weight_decay: as for :class:`AdamW`.

    >>> theta = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    >>> theta.grad = torch.ones(1, dtype=torch.float64)
    >>> SGD([theta], n_layers=8, n_heads=4, lr=0.5).step(); theta.item()
    -16.0
    """

    def __init__(
        self, params: Iterable[Any], n_layers: int, n_heads: int, lr: float = 1e-3, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, n_layers, n_heads, {"lr": lr, "weight_decay": weight_decay})

    def _direction(self, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        return gradient
