"""The one attention hook: it sees, and may scale, the query of every softmax attention of a model.

A module holds what looks at its calls, so that a copy of the model keeps it: a rule, which stays until it is taken off
(:func:`hook_layers`), and a watcher, which stays while a context is open (:func:`attached`) and sees what the rule made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attnlim.core.checks import InputError
from attnlim.models.attention_function import PREFIX, RULE, WATCHER, AttentionCall, Before, register

__all__ = [
    "AttentionCall",
    "Before",
    "attached",
    "hook_layers",
    "hooked_layers",
    "most_visible_keys",
    "unhook_layers",
    "visible_keys",
    "watched",
]


@contextmanager
def attached(model: Any, before: Before) -> Iterator[None]:
    """Show every attention call of ``model`` to ``before`` while the context is open.

    Args:
        model: a transformers model.
        before: called before each attention, after a rule that is attached; a returned tensor replaces the query, None
            leaves it.

    Raises:
        InputError: the model does not route its attention through transformers' AttentionInterface, or its
            attention is already being watched.
    """
    if watched(model):
        raise InputError(
            f"{type(model).__name__}: its attention is watched already, so it cannot be hooked again; end the other first"
        )
    try:
        _switch(model)
        for name, module in model.named_modules():
            module.__dict__[WATCHER] = (name, before)
        yield
    finally:
        _take_off(model, WATCHER)


def watched(model: Any) -> bool:
    """Whether an :func:`attached` context is open."""
    return any(WATCHER in module.__dict__ for module in model.modules())


def hook_layers(model: Any, befores: Mapping[str, Before]) -> None:
    """Let each named attention module show its calls to its own function until :func:`unhook_layers`.

    Args:
        model: a transformers model.
        befores: by the modules' qualified names.

    Raises:
        InputError: as for :func:`attached`.
    """
    try:
        _switch(model)
        for name, before in befores.items():
            module = model.get_submodule(name)
            module.__dict__[RULE] = (name, before)
            module.register_forward_pre_hook(_still_hooked)
    except BaseException:
        unhook_layers(model)
        raise


def unhook_layers(model: Any) -> None:
    """Take off what :func:`hook_layers` put on; the model then runs as before it."""
    for module in model.modules():
        for key, one in list(module._forward_pre_hooks.items()):
            if one is _still_hooked:
                del module._forward_pre_hooks[key]
    _take_off(model, RULE)


def hooked_layers(model: Any) -> dict[str, Before]:
    """What :func:`hook_layers` put on, by the modules' names in ``model``."""
    return {name: module.__dict__[RULE][1] for name, module in model.named_modules() if RULE in module.__dict__}


def _take_off(model: Any, slot: str) -> None:
    for module in model.modules():
        module.__dict__.pop(slot, None)
    if not watched(model) and not hooked_layers(model):
        for config in _configs(model):  # each by itself: set_attn_implementation would pass the model's own down to all
            if str(config._attn_implementation).startswith(PREFIX):
                config._attn_implementation_internal = config._attn_implementation.removeprefix(PREFIX)


def _still_hooked(module: nn.Module, args: Any) -> None:
    """Before a module with a rule runs: a later ``set_attn_implementation`` would drop the rule without a word."""
    config = getattr(module, "config", None)
    if config is not None and not str(config._attn_implementation).startswith(PREFIX):
        raise InputError(
            f"attention was set to {config._attn_implementation!r} after a rule had been attached, which would drop the rule; "
            "detach it, set the implementation, then attach it again"
        )


def _configs(model: Any) -> list[Any]:
    """The configs of a model and of its parts, each once."""
    found = {
        id(module.config): module.config for module in model.modules() if hasattr(module, "set_attn_implementation")
    }
    found[id(model.config)] = model.config
    return list(found.values())


def _switch(model: Any) -> None:
    """Route the attention of a model and of its parts through the hook."""
    configs = _configs(model)
    bases = {config._attn_implementation for config in configs}
    base = model.config._attn_implementation
    if len(bases) > 1:
        raise InputError(
            f"the parts of {type(model).__name__} use different attention ({', '.join(map(str, sorted(bases, key=str)))}); "
            "load it with one attn_implementation for all"
        )
    if not base:
        raise InputError(f"{type(model).__name__}: attention {base!r} cannot be hooked; load the model afresh")
    if base.startswith(PREFIX):
        return
    name = register(base)
    refusal = (
        f"{type(model).__name__} keeps its own attention code and cannot be hooked; "
        "only models that use transformers' AttentionInterface can be audited or given a rule"
    )
    with _transformers_silent():
        try:
            model.set_attn_implementation(name)
        except ValueError as reason:  # some refuse what is not on a list of their own
            raise InputError(f"{refusal} ({reason})") from reason
    if model.config._attn_implementation != name:
        raise InputError(refusal)


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
            raise InputError(f"{call.name}: the attention mask differs between heads, which cannot be read")
        picked = mask[:, 0].index_select(1, rows.to(mask.device))[..., :n_keys]
        if picked.dtype == torch.bool:
            return picked
        # an additive mask hides with the dtype's minimum, or with -inf
        shown = picked > torch.finfo(picked.dtype).min / 2
        if bool((picked[shown] != 0).any()):
            raise InputError(f"{call.name} adds a position bias through its mask, which is not read")
        return shown
    keys = torch.arange(n_keys, device=call.key.device)
    rows = rows.to(call.key.device)
    if (
        mask is not None or "flash" in call.base
    ):  # a mask is one of padding, over slots; the last query sees the last key
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
