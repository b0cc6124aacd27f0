"""Which way each head would rather go: the derivative of the next-token loss by the multiplier of its logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.core.checks import InputError, whole_number
from attnlim.models.hook import AttentionCall, attached
from attnlim.models.layer_numbers import layer_number
from attnlim.models.loading import trained_length
from attnlim.models.next_token import run_backbone, score
from attnlim.models.query_places import query_places
from attnlim.models.recomputing import frozen, recomputed

Multiplier = Callable[[AttentionCall], Tensor | None]


@dataclass(frozen=True)
class Sensitivity:
    """How the next-token loss of one window answers to the logit multipliers of its heads.

    Every array is float64, NaN where a layer has no such head. Negative means that the head wants larger logits.

    Attributes:
        nll: mean over the scored tokens, nats per token.
        token_nll: (n_scored,), nats.
        by_multiplier: (n_layers, n_heads), d nll/d ln m for a factor m on all logits of the head, nats per token.
        by_slope: (n_layers, n_heads), d nll/d w for the multiplier m + w·ln(keys/trained) where a query sees more keys than
            ``trained``; NaN where no query of the layer does, or where nothing is known of the trained length.
        by_octave: (n_octaves, n_layers, n_heads), the parts of ``by_multiplier`` from queries that see more than top/2^(j+1)
            and at most top/2^j keys, where top is the most that any query of the layer sees; they add up to it. NaN where
            there is no such query.
        layers: the layers' numbers in the model.
        trained: n_0, tokens; None where unknown.
    """

    nll: float
    token_nll: np.ndarray
    by_multiplier: np.ndarray
    by_slope: np.ndarray
    by_octave: np.ndarray
    layers: tuple[int, ...]
    trained: int | None


def sensitivity(
    model: Any,
    input_ids: Tensor,
    *,
    trained: int | None = None,
    multiplier: Multiplier | None = None,
    past: Any = None,
    targets_from: int = 1,
) -> Sensitivity:
    r"""Derivatives of a window's mean next-token loss by the logit multiplier of every head, from one backward pass.

    .. math::
        g_h = \frac{\partial\,\text{nll}}{\partial \ln m_h} = \sum_i m_{hi} D_{hi}, \qquad
        s_h = \frac{\partial\,\text{nll}}{\partial w_h} = \sum_{i:\,k_i > n_0} \ln\frac{k_i}{n_0}\, D_{hi}, \qquad
        D_{hi} = \frac{\partial\,\text{nll}}{\partial m_{hi}}

    with m_hi the factor on all logits of query i in head h, at which the derivatives are taken, and k_i the keys that the
    query sees. Weights stay as they are. All that follows the attention, in its own and in later layers, is counted; a mixture of
    experts keeps the experts that it has chosen.

    Source: *ours*. It is the exact derivative: a factor on the query is a factor on its logits, and autograd's derivative by that
    factor is the sum over the query's dimensions of its value times its gradient.

    Args:
        model: a causal language model with its head, attention through transformers' AttentionInterface.
        input_ids: (1, n_tokens) int64, n_tokens ≥ 2; with ``past`` only what follows the prefix.
        trained: n_0, tokens, at least 1; None takes what the model's config says.
        multiplier: gives the present factor (n_heads, n_queries) for an attention call, or with 1 in place of either, or with
            a leading 1; None is 1 throughout, and so is a function that gives None.
        past: keys and values of a prefix that does not depend on the multipliers, from
            :func:`attnlim.models.prefill`; nothing is differentiated through it, and it is left as it is.
        targets_from: the first token of ``input_ids`` that is scored, at least 1.

    Returns:
        A :class:`Sensitivity`.

    Raises:
        InputError: a model without a next-token head, an encoder, attention that cannot be hooked, one attention module that
            serves several layers, a window or cache that :func:`attnlim.models.next_token_nll` refuses, derivatives beyond the
            range of the model's dtype.

    Cost: a forward, a backward, and in between each block's forward once more, without its sdpa. Memory of O(n · n_layers ·
    width) for what enters the blocks and what sdpa gives, and of one block at work; eager attention is at work with n² per
    head. A prefix saves less than its share: without one the causal kernel runs, with one a mask has to be made and read.

    Precision: gradients run in the model's dtype; products and sums over the query's dimensions in float32, over queries in float64.
    """
    n_0 = trained_length(model) if trained is None else whole_number("trained", trained, 1)
    watch = _Watch(type(model).__name__, multiplier)
    with frozen(model), recomputed(model), attached(model, watch), torch.enable_grad():
        output = run_backbone(model, input_ids, past)
        watch.forward_done = True
        scored, gradient = score(model, output, input_ids, targets_from, backward=True)
        if not watch.seen:
            raise InputError(f"{type(model).__name__}: no softmax attention reached the hook, so no head can be moved")
        output.last_hidden_state.backward(gradient)  # of the sum: of a mean, half precision would lose what is small
    seen = list(watch.seen.values())
    if lost := sum(int((~one.derivative().isfinite()).any(dim=1).sum()) for one in seen):
        raise InputError(
            f"{type(model).__name__} in {str(output.last_hidden_state.dtype).removeprefix('torch.')}: the derivative of {lost} heads "
            "is not finite; take a dtype with more range, such as bfloat16 or float32"
        )
    return _summarised(seen, scored.cpu().double().numpy(), n_0)


@dataclass
class _Seen:
    """One attention layer: its factors, whose gradient the backward pass leaves in them, and its queries' visible keys."""

    name: str
    factors: Tensor  # (n_heads, n_queries)
    keys: np.ndarray  # (n_queries,)

    def derivative(self) -> Tensor:
        """(n_heads, n_queries) of the sum of losses; 0 where they do not depend on the factors at all."""
        gradient = self.factors.grad
        return torch.zeros_like(self.factors) if gradient is None else gradient.detach()


@dataclass
class _Watch:
    """Multiplies each query by a tensor that asks for a gradient, the same one when a block runs again."""

    model: str
    multiplier: Multiplier | None
    seen: dict[str, _Seen] = field(default_factory=dict)
    forward_done: bool = False

    def __call__(self, call: AttentionCall) -> Tensor:
        if not self.forward_done:
            self._begin(call)
        factors = self.seen[call.name].factors
        return (call.query.to(factors.dtype) * factors[None, :, :, None]).to(call.query.dtype)

    def _begin(self, call: AttentionCall) -> None:
        if call.name in self.seen:
            raise InputError(f"{self.model} uses {call.name} for several layers, whose heads cannot be told apart")
        if not call.causal:
            raise InputError(f"{self.model} is an encoder: it predicts no next token; sensitivity needs a decoder")
        _, n_heads, n_queries, _ = call.query.shape
        given = None if self.multiplier is None else self.multiplier(call)
        factors = torch.ones((1, 1)) if given is None else given.detach().reshape(given.shape[-2:])
        wide = torch.promote_types(call.query.dtype, torch.float32)
        factors = factors.to(call.query.device, wide).expand(n_heads, n_queries).clone().requires_grad_()
        self.seen[call.name] = _Seen(call.name, factors, query_places(call).keys[0].cpu().numpy())


def _summarised(seen: list[_Seen], token_nll: np.ndarray, trained: int | None) -> Sensitivity:
    n_heads = max(len(layer.factors) for layer in seen)
    n_octaves = int(max(layer.keys.max() for layer in seen)).bit_length()
    by_multiplier, by_slope = np.full((2, len(seen), n_heads), np.nan)
    by_octave = np.full((n_octaves, len(seen), n_heads), np.nan)
    for place, layer in enumerate(seen):
        factors = layer.factors.detach().cpu().double().numpy()
        derivative = layer.derivative().cpu().double().numpy() / len(token_nll)
        heads = slice(len(factors))
        by_multiplier[place, heads] = (factors * derivative).sum(axis=1)
        if trained is not None and (layer.keys > trained).any():
            by_slope[place, heads] = derivative @ np.log(np.maximum(layer.keys / trained, 1.0))
        octave = np.floor(np.log2(layer.keys.max() / layer.keys)).astype(int)
        for j in np.unique(octave):
            inside = octave == j
            by_octave[j, place, heads] = (factors * derivative)[:, inside].sum(axis=1)
    numbers = [layer_number(layer.name) for layer in seen]
    layers = tuple(turn if number is None else number for turn, number in enumerate(numbers))
    return Sensitivity(float(token_nll.mean()), token_nll, by_multiplier, by_slope, by_octave, layers, trained)
