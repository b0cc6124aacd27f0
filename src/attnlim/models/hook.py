"""The one attention hook: it sees, and may scale, the query of every softmax attention of a model.

A function is registered with transformers under the name ``attnlim_BASE`` for each base implementation (sdpa,
eager, flash, flex). It shows the call to whoever attached, then delegates to the base: no model code is copied,
and attention runs exactly as before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnlim.core.checks import InputError, extra

PREFIX = "attnlim_"


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

_attached: WeakKeyDictionary[nn.Module, tuple[str, Before]] = WeakKeyDictionary()


@contextmanager
def attached(model: Any, before: Before) -> Iterator[None]:
    """Show every attention call of ``model`` to ``before`` while the context is open.

    Args:
        model: a transformers model.
        before: called before each attention; a returned tensor replaces the query, None leaves it.

    Raises:
        InputError: the model does not route its attention through transformers' AttentionInterface, or its
            attention is already hooked.
    """
    configs = _configs(model)
    bases = {config._attn_implementation for config in configs}
    base = model.config._attn_implementation
    if len(bases) > 1:
        raise InputError(
            f"the parts of {type(model).__name__} use different attention ({', '.join(map(str, sorted(bases, key=str)))}); "
            "load it with one attn_implementation for all"
        )
    if not base or base.startswith(PREFIX):
        raise InputError(f"{type(model).__name__}: attention {base!r} cannot be hooked; load the model afresh")
    try:
        _switch(model, _register(base))
        for module_name, module in model.named_modules():
            _attached[module] = (module_name, before)
        yield
    finally:
        for module in model.modules():
            _attached.pop(module, None)
        for config in configs:  # each by itself: set_attn_implementation would pass the model's own down to all
            config._attn_implementation_internal = base


def _configs(model: Any) -> list[Any]:
    """The configs of a model and of its parts, each once."""
    found = {
        id(module.config): module.config for module in model.modules() if hasattr(module, "set_attn_implementation")
    }
    found[id(model.config)] = model.config
    return list(found.values())


def _switch(model: Any, name: str) -> None:
    refusal = (
        f"{type(model).__name__} keeps its own attention code and cannot be hooked; "
        "only models that use transformers' AttentionInterface can be audited"
    )
    with _transformers_silent():
        try:
            model.set_attn_implementation(name)
        except ValueError as reason:  # some refuse what is not on a list of their own
            raise InputError(f"{refusal} ({reason})") from reason
    if model.config._attn_implementation != name:
        raise InputError(refusal)


def _register(base: str) -> str:
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
    AttentionMaskInterface.register(name, ALL_MASK_ATTENTION_FUNCTIONS[base])
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
        seen = _attached.get(module)
        if seen is not None:
            name, before = seen
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


def visible_keys(call: AttentionCall, rows: Tensor) -> Tensor:
    """Which keys the given query rows may attend to.

    Args:
        call: an attention call.
        rows: (n_rows,) int64, indices along the query axis.

    Returns:
        (batch or 1, n_rows, n_keys) bool.

    Raises:
        InputError: the mask is of a kind that cannot be read (a block mask of flex attention, a mask that differs
            between heads, a mask that adds a bias).
    """
    n_keys, mask = call.key.shape[2], call.mask
    if "block_mask" in call.extras:
        raise InputError("flex attention's block masks cannot be read; load the model with attn_implementation='sdpa'")
    if mask is not None and mask.dim() == 4:
        if mask.shape[1] != 1 and not bool((mask == mask[:, :1]).all()):
            raise InputError(f"{call.name}: the attention mask differs between heads, which the audit cannot read")
        picked = mask[:, 0].index_select(1, rows.to(mask.device))[..., :n_keys]
        if picked.dtype == torch.bool:
            return picked
        # an additive mask hides with the dtype's minimum, or with -inf
        shown = picked > torch.finfo(picked.dtype).min / 2
        if bool((picked[shown] != 0).any()):
            raise InputError(f"{call.name} adds a position bias through its mask, which the audit does not read")
        return shown
    keys = torch.arange(n_keys, device=call.key.device)
    rows = rows.to(call.key.device)
    if mask is not None:  # flash attention: a padding mask over slots
        positions = rows[None] + (n_keys - call.query.shape[2])
    elif call.causal and n_keys != call.query.shape[2] and call.position_ids is not None:
        positions = call.position_ids.to(rows.device)[:, rows]  # a cache: its length or capacity says nothing
    else:
        positions = rows[None]
    distance = positions[..., None] - keys
    visible = distance >= 0 if call.causal else torch.ones_like(distance, dtype=torch.bool)
    if call.sliding_window is not None and (call.causal or "flash" in call.base):
        visible = visible & (distance.abs() < call.sliding_window)
    return visible if mask is None else visible & mask[:, None, :n_keys].bool()


def most_visible_keys(call: AttentionCall) -> Tensor:
    """(batch or 1,) int64: the most keys that any query of the call sees."""
    n_queries = call.query.shape[2]
    if call.mask is None:
        # causal rows see more the later they are; two-sided windows are widest away from the ends
        return visible_keys(call, torch.tensor([n_queries // 2, n_queries - 1])).sum(dim=2).amax(dim=1)
    blocks = torch.split(torch.arange(n_queries), 512)
    return torch.stack([visible_keys(call, rows).sum(dim=2).amax(dim=1) for rows in blocks]).amax(dim=0)


@contextmanager
def _transformers_silent() -> Iterator[None]:
    # what it would warn of is checked and raised right after
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
