"""Attaching a scaling rule to a running model, and taking it off again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnlim.core.checks import InputError, extra
from attnlim.models.hook import AttentionCall, hook_layers, hooked_layers, unhook_layers, watched
from attnlim.rules.config_files import facts_of
from attnlim.rules.layer_kinds import Layer, layers_of, of_kind
from attnlim.rules.reached_attention import ReachedLayer, reached_layers
from attnlim.rules.reading import read
from attnlim.rules.rule import Factor, Rule
from attnlim.rules.rule_parameters import CHILD, LayerRule, Pass

# every position at which a rule of the catalogue may begin to act lies below, or a power of two beyond
POSITIONS = np.unique(np.concatenate([2 ** np.arange(25) - 1, 2 ** np.arange(25), 3 * 2 ** np.arange(23)]))


def attach(model: Any, rule: Rule, *, on_top: bool = False, trainable: bool = True) -> Rule:
    """Multiply the queries of a running model by a rule, from the next forward on.

    The factor is computed in float32 from the positions and the visible keys of every forward, after rotary embedding and
    query norm; the model's own attention does the rest.

    Args:
        model: a transformers model that takes a registered attention function; an encoder or a decoder, with or without head.
        rule: its query factors; per-head constants have one number for each query head.
        on_top: multiply although the model's config scales its logits already.
        trainable: whether the rule's learned parameters ask for gradients.

    Returns:
        The rule as it acts: with layers of a kind resolved to their numbers.

    Raises:
        InputError: a model that cannot be hooked, is being watched, has a rule or (without ``on_top``) a config that scales;
            a rule with factors on cos/sin or the softmax scale, for another number of layers or heads, or for layers that
            the model does not have. The model is then as it was.
    """
    extra("transformers", "models")
    name = type(model).__name__
    if rule_of(model) is not None:
        raise InputError(f"{name} has the rule {attached_name(model)} attached, which would act twice; detach it first")
    if watched(model):
        raise InputError(f"{name}: its attention is being watched; attach the rule before the watching begins")
    _check_places(rule)
    if any(factor.by_position for factor in rule.factors) and "flex" in str(model.config._attn_implementation):
        raise InputError(
            f"{name} uses flex attention, whose masks cannot be read; load it with attn_implementation='sdpa'"
        )
    if not on_top:
        check_unscaled(model, "another rule would multiply that; take it out of the config, or attach with on_top=True")
    acting, reached = _on_model(rule, model)
    passes: dict[int | None, Pass] = {}
    befores = {}
    try:
        for one in reached:
            module = model.get_submodule(one.name)
            here = LayerRule(acting, one, passes, trainable=trainable, on_top=on_top)
            module.add_module(CHILD, here.to(_device(module)))
            befores[one.name] = here
        hook_layers(model, befores)
    except BaseException:
        drop_rule(model)
        raise
    return acting


def detach(model: Any) -> None:
    """Take the rule off; the model then computes, bit for bit, what it did before, and its learned parameters are gone.

    Raises:
        InputError: no rule is attached, or the model is being watched.
    """
    if rule_of(model) is None:
        raise InputError(f"{type(model).__name__} has no rule attached, so there is none to detach")
    if watched(model):
        raise InputError(f"{type(model).__name__}: its attention is being watched; detach the rule when that has ended")
    drop_rule(model)


def attached_rule(model: Any) -> Rule | None:
    """The rule that is attached, with learned parameters as they are now; None without one.

    Learned parameters are (n_layers, n_heads), NaN where a layer has none.
    """
    rule = rule_of(model)
    if rule is None:
        return None
    held = list(layer_rules(model))
    n_layers = max((one.layer for one in held), default=-1) + 1
    most_heads = max((one.n_heads for one in held), default=0)
    tables: dict[tuple[int, str], np.ndarray] = {}
    for one in held:
        for number, name, values in one.learned():
            table = tables.setdefault((number, name), np.full((n_layers, most_heads), np.nan))
            table[one.layer, : one.n_heads] = values.detach().cpu().double().numpy()
    factors = list(rule.factors)
    for (number, name), table in tables.items():
        factors[number] = replace(factors[number], parameters={**factors[number].parameters, name: table})
    return Rule(rule.name, tuple(factors))


def multiplier_of(rule: Rule, model: Any) -> Callable[[AttentionCall], Tensor | None]:
    """The factor that a rule puts on the query of an attention call, for whoever multiplies by himself.

    Args:
        rule: as for :func:`attach`; nothing is attached.
        model: whose layers and heads it is for.

    Returns:
        A function of an :class:`attnlim.models.AttentionCall` of one sequence: (1 or n_heads, n_queries), float32 or, for float64
        queries, float64; None where it is 1 throughout.

    Raises:
        InputError: as for :func:`attach`.
    """
    _check_places(rule)
    acting, reached = _on_model(rule, model)
    passes: dict[int | None, Pass] = {}
    layers = {one.name: LayerRule(acting, one, passes, trainable=False, on_top=True) for one in reached}

    def factor(call: AttentionCall) -> Tensor | None:
        found = layers[call.name].factor(call)
        if found is None:
            return None
        shape = (call.query.shape[0], call.query.shape[1], call.query.shape[2], 1)
        wide = torch.promote_types(call.query.dtype, torch.float32)
        return torch.as_tensor(found, dtype=wide, device=call.query.device).broadcast_to(shape)[0, ..., 0]

    return factor


def layer_rules(model: Any) -> Iterator[LayerRule]:
    """The attached rule's part on every attention layer."""
    return (one for one in hooked_layers(model).values() if isinstance(one, LayerRule))


def rule_of(model: Any) -> Rule | None:
    """The rule as it was attached; None without one."""
    return next((one.rule for one in layer_rules(model)), None)


def attached_name(model: Any) -> str:
    """What the attached rule is called."""
    rule = rule_of(model)
    return repr(rule.name) if rule else "none"


def drop_rule(model: Any) -> None:
    """Take off whatever is there of a rule."""
    unhook_layers(model)
    for module in model.modules():
        if CHILD in module._modules:
            del module._modules[CHILD]


def _check_places(rule: Rule) -> None:
    for factor in rule.factors:
        if factor.place != "query":
            where = "cos and sin" if factor.place == "cos_sin" else "the softmax scale"
            raise InputError(
                f"the rule {rule.name!r} acts on {where} ({factor.name}: {factor.formula}), which belongs into the model's own "
                "config; only factors on the query can be attached, such as constant(value)"
            )


def check_unscaled(model: Any, advice: str) -> None:
    """Refuse a model whose config scales its logits, saying ``advice``.

    Raises:
        InputError: it does.
    """
    for factor in read(model.config.to_dict()).factors:
        layer = factor.layers[0] if factor.layers else 0
        values = np.asarray(factor.at(POSITIONS, POSITIONS + 1, layer, 0))
        if not bool(np.isclose(values, 1.0, rtol=1e-9, atol=0.0).all()):
            raise InputError(
                f"the config of {type(model).__name__} scales its logits already ({factor.name}: {factor.formula}); {advice}"
            )


def _on_model(rule: Rule, model: Any) -> tuple[Rule, tuple[ReachedLayer, ...]]:
    """The rule with the numbers of its layers, and the layers that it reaches."""
    reached, name = reached_layers(model), type(model).__name__
    layers = config_layers(model)
    acting = Rule(rule.name, tuple(_on_layers(factor, layers, name) for factor in rule.factors))
    for factor in acting.factors:
        _check_layers(factor, reached, layers, name)
    return acting, reached


def config_layers(model: Any) -> tuple[Layer, ...]:
    """Every layer of a model, as its config has it."""
    config = model.config.get_text_config()
    # DistilBERT and others call it by another name, which the config itself knows
    return layers_of(facts_of({**config.to_dict(), "num_hidden_layers": config.num_hidden_layers}))


def _on_layers(factor: Factor, layers: tuple[Layer, ...], model: str) -> Factor:
    """The factor with the numbers of the layers of its kind; layers that it names itself stay."""
    if factor.layers is not None or factor.kind == "all":
        return factor
    numbers = of_kind(factor.kind, layers)
    if not numbers:
        what = {"nope": "without rotary positions", "global": "without a window", "local": "with a window"}[factor.kind]
        raise InputError(f"{factor.name} acts on layers {what}, and the config of {model} names none")
    return replace(factor, layers=numbers)


def _check_layers(factor: Factor, reached: tuple[ReachedLayer, ...], layers: tuple[Layer, ...], model: str) -> None:
    """Every layer on which the factor acts is there, and its numbers fit the heads."""
    found = {one.layer: one for one in reached}
    wanted = factor.layers
    if wanted is None:
        wanted = tuple(number for number, layer in enumerate(layers) if layer.softmax)
        if any(one.shared for one in reached):
            wanted = tuple(found)
    if missing := [number for number in wanted if number not in found]:
        raise InputError(
            f"{model}: no attention of layer {', '.join(map(str, missing))} reached the hook, so {factor.name} would be ignored there"
        )
    split = factor.layers is not None or any(np.ndim(value) == 2 for value in factor.parameters.values())
    if split and any(found[number].shared for number in wanted):
        raise InputError(
            f"{model} runs one attention module as several layers, so {factor.name} cannot differ between them"
        )
    for name, value in factor.parameters.items():
        shape = np.shape(value)
        if len(shape) == 2 and shape[0] != len(layers):
            raise InputError(f"{factor.name}: {name} has {shape[0]} layers, {model} has {len(layers)}")
        for number in wanted:
            if shape and shape[-1] != found[number].n_heads:
                raise InputError(
                    f"{factor.name}: {name} has {shape[-1]} heads, layer {number} of {model} has {found[number].n_heads} query heads"
                )


def _device(module: nn.Module) -> Any:
    """Where an attention module's own weights are; offloaded ones are nowhere, and the rule waits on the CPU."""
    device = next((weight.device for weight in module.parameters()), None)
    return "cpu" if device is None or device.type == "meta" else device
