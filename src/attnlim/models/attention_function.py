"""The attention function that transformers calls in place of a base implementation, and what it is called with.

It is registered under the name ``attnlim_BASE`` for each base implementation (sdpa, eager, flash, flex). It shows the call to
what the attention module holds for it, then delegates to the base: no model code is copied, and attention runs as before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from attnlim.core.checks import InputError, extra
from attnlim.models.noted_positions import noting_positions

PREFIX = "attnlim_"
# in this order at every call; each is (qualified name, before) in the __dict__ of an attention module
RULE, WATCHER = "_attnlim_rule", "_attnlim_watcher"


@dataclass(frozen=True)
class AttentionCall:
    """What one attention module hands to its attention function.

    Attributes:
        name: the module's qualified name in the model.
        module: the attention module.
        base: the implementation that computes it ("sdpa", "eager", ...).
        query: (batch, n_heads, n_queries, head_dim), after rotary embedding and query norm.
        key: (batch, n_key_heads, n_keys, head_dim), the same.
        mask: what the base implementation gets: None, a bool or additive (batch, 1 or n_heads, n_queries, n_keys)
            tensor, or a (batch, n_keys) padding mask for flash attention.
        scaling: the softmax scale, a factor on query·key.
        causal: whether a query sees no later key.
        softcap: scores become softcap·tanh(score/softcap); None without.
        sliding_window: the window in tokens where one is used.
        position_ids: (1 or batch, n_queries), None where the model passes none.
        extras: every other keyword that the module passed.
    """

    name: str
    module: nn.Module
    base: str
    query: Tensor
    key: Tensor
    mask: Tensor | None
    scaling: float
    causal: bool
    softcap: float | None
    sliding_window: int | None
    position_ids: Tensor | None
    extras: dict[str, Any] = field(repr=False)


Before = Callable[[AttentionCall], Tensor | None]


def register(base: str) -> str:
    """Register the attention function over a base implementation, and a mask function of the same name.

    Raises:
        InputError: transformers has no mask function for the base.
    """
    extra("transformers", "models")
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    if base not in ALL_MASK_ATTENTION_FUNCTIONS:
        raise InputError(
            f"attention {base!r} has no mask function that could be hooked; load with attn_implementation='sdpa'"
        )
    name = PREFIX + base
    AttentionInterface.register(name, _attention_function(base))
    # without a mask function of the same name the mask is None, and padding is silently ignored
    AttentionMaskInterface.register(name, noting_positions(ALL_MASK_ATTENTION_FUNCTIONS[base]))
    return name


def _attention_function(base: str) -> Callable[..., Any]:
    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **rest: Any,
    ) -> Any:
        for slot in (RULE, WATCHER):
            if slot in module.__dict__:
                name, before = module.__dict__[slot]
                scaled = before(_call(name, module, base, query, key, attention_mask, rest))
                query = query if scaled is None else scaled
        return _base_function(base, module)(module, query, key, value, attention_mask, **rest)

    return attention


def _call(
    name: str,
    module: nn.Module,
    base: str,
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    rest: dict[str, Any],
) -> AttentionCall:
    rest = dict(rest)
    scaling = rest.pop("scaling", None)
    causal = rest.pop("is_causal", None)
    return AttentionCall(
        name=name,
        module=module,
        base=base,
        query=query,
        key=key,
        mask=mask if isinstance(mask, Tensor) or mask is None else None,
        scaling=query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        causal=bool(getattr(module, "is_causal", True) if causal is None else causal),
        softcap=rest.pop("softcap", None),
        sliding_window=rest.pop("sliding_window", None),
        position_ids=rest.pop("position_ids", None),
        extras={**rest, "block_mask": mask} if mask is not None and not isinstance(mask, Tensor) else rest,
    )


def _base_function(base: str, module: nn.Module) -> Callable[..., Any]:
    from transformers import AttentionInterface

    home = sys.modules[type(module).__module__]
    if base == "eager":
        # each model family has its own: Gemma 2's applies the soft cap, gpt-oss's the sinks
        eager: Callable[..., Any] = home.eager_attention_forward
        return eager
    interface = getattr(home, "ALL_ATTENTION_FUNCTIONS", None) or AttentionInterface()
    function: Callable[..., Any] = interface[base]
    return function
