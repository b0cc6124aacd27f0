"""Folding a constant rule into the weights of the query projections, so that nothing stays attached."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnlim.core.checks import InputError
from attnlim.models.hook import hook_layers, hooked_layers, unhook_layers
from attnlim.rules.attaching import drop_rule, rule_of
from attnlim.rules.reached_attention import probe_output
from attnlim.rules.rule_parameters import LayerRule

TOLERANCE = 1e-4
# of the projection that holds the queries: its name → where they are among its outputs
WHOLE, FIRST, BY_HEAD = "whole", "first", "by head"
LAYOUTS = {
    "q_proj": WHOLE,
    "query": WHOLE,
    "q_lin": WHOLE,
    "c_attn": FIRST,  # GPT-2: all queries, all keys, all values
    "qkv_proj": FIRST,  # Phi-3
    "Wqkv": FIRST,  # ModernBERT
    "query_key_value": BY_HEAD,  # GPT-NeoX: query, key and value of each head in turn
}


# norms after the query projection, by the names that models give them
NORMS = ("q_norm", "qk_norm", "q_layernorm", "q_layer_norm", "query_layernorm", "query_norm")


@dataclass(frozen=True)
class _Projection:
    """The query projection of one attention module, and the factor of each of its outputs."""

    module: nn.Module
    factors: Tensor  # (n_outputs,) float64
    outputs_first: bool

    def weights(self) -> list[nn.Parameter]:
        """The matrix, and the bias where there is one."""
        return [one for one in (self.module.weight, self.module.bias) if isinstance(one, nn.Parameter)]

    def multiply(self) -> None:
        """By the factors, in float64, rounded once."""
        with torch.no_grad():
            for weight in self.weights():
                factors = self.factors[:, None] if weight.dim() == 2 and self.outputs_first else self.factors
                weight.copy_(weight.cpu().double() * factors)


def fold(model: Any) -> None:
    r"""Multiply the weights and biases of the query projections by the attached rule, and detach it.

    .. math:: (b_h W_h) x + b_h c_h = b_h (W_h x + c_h)

    Rotary embedding turns a query and does not change its length, so a factor may stand before or after it. The result is
    checked on a few tokens: it has to agree with the model that had the rule attached to 1e-4 of its largest value.

    Args:
        model: a model with a rule that is the same at all positions.

    Raises:
        InputError: no rule is attached, it differs between positions, a norm stands between the query projection and the
            attention or its output is clipped, the projection is of an unknown layout, quantised or shared by layers, or the check
            failed, as it does in narrow number types. The weights are then as they were, and the rule stays attached.
    """
    name = type(model).__name__
    if rule_of(model) is None:
        raise InputError(f"{name} has no rule attached, so there is none to fold; attach it first")
    projections = list(_projections(model))
    weights = [weight for one in projections for weight in one.weights()]
    if len({weight.data_ptr() for weight in weights}) < len(weights):
        raise InputError(f"{name} shares a query projection between layers, so no rule can be folded into it")
    wanted = probe_output(model)
    kept, befores = [weight.detach().clone() for weight in weights], hooked_layers(model)
    unhook_layers(model)
    try:
        for one in projections:
            one.multiply()
        found = probe_output(model)
        error = float((found - wanted).abs().max() / wanted.abs().max().clamp(min=torch.finfo(wanted.dtype).tiny))
        if not error <= TOLERANCE:
            raise InputError(
                f"{name} with the rule folded in differs by {error:.1g} of its largest output from the model with it attached, "
                f"above {TOLERANCE:g}; keep it attached, or if its numbers are {weights[0].dtype}, fold it in float32"
            )
    except BaseException:
        with torch.no_grad():
            for weight, was in zip(weights, kept, strict=True):
                weight.copy_(was)
        hook_layers(model, befores)
        raise
    drop_rule(model)


def _projections(model: Any) -> Iterator[_Projection]:
    for name, rule in hooked_layers(model).items():
        if isinstance(rule, LayerRule):
            yield _projection(name, model.get_submodule(name), rule)


def _projection(name: str, attention: nn.Module, rule: LayerRule) -> _Projection:
    factors = rule.constant().repeat_interleave(rule.head_dim)
    children = dict(attention.named_children())
    for norm in NORMS:
        if norm in children and not isinstance(children[norm], nn.Identity):
            raise InputError(
                f"{name} has the norm {norm} between query projection and attention, which takes any factor on the projection "
                "out again; keep the rule attached"
            )
    if any(getattr(one, "clip_qkv", None) is not None for one in (attention, getattr(attention, "config", None))):
        raise InputError(
            f"{name} clips what its query projection gives (clip_qkv), before a rule that is attached and after one that is folded "
            "in; keep the rule attached"
        )
    for child, layout in LAYOUTS.items():
        weight = getattr(children.get(child), "weight", None)
        if weight is None:
            continue
        if not isinstance(weight, nn.Parameter) or weight.dim() != 2 or not weight.is_floating_point():
            raise InputError(f"{name}.{child} holds no plain matrix of numbers, so no rule can be folded into it")
        module = children[child]
        outputs_first = isinstance(module, nn.Linear)  # GPT-2 keeps (inputs, outputs)
        n_outputs, n_queries = weight.shape[0 if outputs_first else 1], len(factors)
        ones = torch.ones(n_outputs, dtype=torch.float64)
        if layout == WHOLE and n_outputs == n_queries:
            return _Projection(module, factors.cpu(), outputs_first)
        if layout == FIRST and n_outputs >= n_queries:
            ones[:n_queries] = factors.cpu()
            return _Projection(module, ones, outputs_first)
        if layout == BY_HEAD and n_outputs == 3 * n_queries:
            ones.view(rule.n_heads, 3, rule.head_dim)[:, 0] = factors.cpu().view(rule.n_heads, rule.head_dim)
            return _Projection(module, ones, outputs_first)
        raise InputError(
            f"{name}.{child} has {n_outputs} outputs for {rule.n_heads} query heads of {rule.head_dim} dimensions, which is no "
            "layout that is known; keep the rule attached"
        )
    raise InputError(
        f"{name} has no query projection of a known name ({', '.join(LAYOUTS)}), so no rule can be folded into it; keep it attached"
    )
