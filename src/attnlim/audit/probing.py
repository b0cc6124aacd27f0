"""One forward of a model, watched: attention statistics of sampled rows and the geometry of its tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attnlim.audit.statistics import Rows, row_statistics
from attnlim.context.cosine import mean_cosine
from attnlim.core.checks import InputError
from attnlim.models.hook import AttentionCall, attached, most_visible_keys, visible_keys
from attnlim.models.layer_numbers import layer_number
from attnlim.models.placement import standing_on

HARMLESS = {
    *("dropout", "deterministic", "training", "use_cache", "cache_position", "position_embeddings", "return_dict"),
    *("output_attentions", "output_hidden_states", "output_router_logits", "num_items_in_batch", "target_dtype"),
    *("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"),
}
"""Keywords of an attention function that do not change which keys a row sees or how it weighs them. Any other may:
learned sinks, position biases, chosen blocks or indices; so a layer that passes one is refused, not misread."""


@dataclass(frozen=True)
class AttentionLayer:
    """One softmax attention of a model, in the order in which a forward reaches it.

    Attributes:
        layer: its number in the model.
        name: the module's qualified name.
        n_heads: query heads.
        causal: no row sees a later key.
        sliding_window: in tokens as the model states it, None without.
        softcap: of the scores, None without.
    """

    layer: int
    name: str
    n_heads: int
    causal: bool
    sliding_window: int | None
    softcap: float | None = None


@dataclass(frozen=True)
class Anatomy:
    """What a model's forward consists of, found by running one.

    Attributes:
        layers: the softmax attention layers.
        block_names: the modules whose inputs are the residual stream, in order.
        skipped: layers of the stack without softmax attention: number, name and kind.
    """

    layers: tuple[AttentionLayer, ...]
    block_names: tuple[str, ...]
    skipped: tuple[tuple[int, str, str], ...]


@dataclass
class Probed:
    """What one watched forward gave.

    Attributes:
        statistics: one dict a layer and sequence of the batch: name → (n_heads, n_rows) float64.
        visible: one (n_rows,) int64 tensor a layer and sequence: keys that each row sees.
        most_visible: the most keys that any row of the layer sees, sampled or not, a layer and sequence.
        rho_input: one ρ̂ a layer and sequence, of the attention's own input.
        rho_residual: one ρ̂ a block input and sequence, and one of the last block's output.
    """

    statistics: list[list[dict[str, Tensor]]] = field(default_factory=list)
    visible: list[list[Tensor]] = field(default_factory=list)
    most_visible: list[list[int]] = field(default_factory=list)
    rho_input: list[list[float]] = field(default_factory=list)
    rho_residual: list[list[float]] = field(default_factory=list)


def anatomy(model: Any, input_ids: Tensor) -> Anatomy:
    """The attention layers that a short forward of ``input_ids`` reaches.

    Args:
        model: a transformers model; its backbone is run, without the language-model head.
        input_ids: (1, n_tokens) int64, a few tokens.

    Raises:
        InputError: the model cannot be hooked, or computes attention in a way that the audit does not read.
    """
    if getattr(model.config, "is_encoder_decoder", False):
        raise InputError(f"{type(model).__name__} is an encoder-decoder; only decoders and encoders can be audited")
    calls: list[AttentionLayer] = []

    def note(call: AttentionCall) -> None:
        for keyword, value in call.extras.items():
            if keyword not in HARMLESS and value is not None and value is not False:
                raise InputError(f"{call.name} passes {keyword!r} to its attention, which the audit does not read yet")
        visible_keys(call, torch.arange(call.query.shape[2]))
        number = layer_number(call.name)
        layer = len(calls) if number is None else number
        calls.append(
            AttentionLayer(layer, call.name, call.query.shape[1], call.causal, call.sliding_window, call.softcap)
        )

    with attached(model, note):
        watched = _forward(model, input_ids, None)
    if not calls:
        raise InputError(f"{type(model).__name__}: no softmax attention reached the hook, so there is nothing to audit")
    plain, turns = _forward_counting(model, input_ids, {call.name for call in calls})
    # on a CPU the same kernels give the same bits; elsewhere a reduction may run in another order
    same = torch.equal(plain, watched) if plain.device.type == "cpu" else torch.allclose(plain, watched, 1e-2, 1e-2)
    if not same:
        raise InputError(f"{type(model).__name__} computes something else while it is hooked, so it cannot be audited")
    if len(calls) > sum(turns.values()):
        raise InputError(
            f"{type(model).__name__} takes several softmaxes in one attention, which the audit does not read yet"
        )
    if len({call.layer for call in calls}) < len(calls):  # layers that share one module are told apart by their turn
        calls = [replace(call, layer=turn) for turn, call in enumerate(calls)]
    blocks = _blocks(model.base_model, calls)
    return Anatomy(tuple(calls), tuple(blocks), tuple(_skipped(model, blocks, calls)))


def probe(
    model: Any,
    input_ids: Tensor,
    rows: Tensor,
    parts: Anatomy,
    attention_mask: Tensor | None = None,
    k_min: int = 10,
) -> Probed:
    """Run the backbone once and measure every attention layer on the way; the model's output is unchanged.

    Args:
        model: a transformers model in evaluation mode.
        input_ids: (batch, n_tokens) int64.
        rows: (n_rows,) int64, ascending slots of the sequence to look at.
        parts: the model's anatomy.
        attention_mask: (batch, n_tokens), 0 at padding; padding is neither looked at nor counted.
        k_min: the smallest rank that counts in the gap count.

    Raises:
        InputError: hidden states hold NaN or infinity.
    """
    found = Probed()
    real = None if attention_mask is None else attention_mask.bool()

    def measure(call: AttentionCall) -> None:
        visible = visible_keys(call, rows).expand(call.query.shape[0], -1, -1)
        statistics, counts = [], []
        for sequence in range(call.query.shape[0]):
            inside = _real_slots(real, sequence, call.query.shape[2])
            keep = torch.isin(rows, inside)
            mine = Rows(rows[keep].to(call.query.device), visible[sequence, keep.to(visible.device)], int(inside[0]))
            statistics.append(
                row_statistics(
                    call.query[sequence],
                    call.key[sequence],
                    mine,
                    call.scaling,
                    call.softcap,
                    k_min,
                    call.causal,
                )
            )
            counts.append(mine.visible.sum(dim=1))
        found.statistics.append(statistics)
        found.visible.append(counts)
        found.most_visible.append(most_visible_keys(call).expand(call.query.shape[0]).tolist())

    with ExitStack() as stack:
        stack.enter_context(attached(model, measure))
        stack.enter_context(_watched_tokens(model.base_model, parts, real, found))
        _forward(model, input_ids, attention_mask)
    if len(found.statistics) != len(parts.layers):
        raise InputError(
            f"{len(found.statistics)} attention layers ran on {input_ids.shape[1]} tokens and {len(parts.layers)} on a few; "
            "a model whose layers depend on the input cannot be audited"
        )
    return found


def _forward(model: Any, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
    backbone = model.base_model
    device = standing_on(backbone)
    inputs: dict[str, Any] = {"input_ids": input_ids.to(device)}
    if attention_mask is not None:
        inputs["attention_mask"] = attention_mask.to(device)
    if hasattr(backbone.config, "use_cache"):
        inputs["use_cache"] = False
    with torch.inference_mode():
        output: Tensor = backbone(**inputs)[0]
    return output


def _forward_counting(model: Any, input_ids: Tensor, names: set[str]) -> tuple[Tensor, Counter[str]]:
    """The plain output, and how often each named module ran."""
    turns: Counter[str] = Counter()
    modules = dict(model.named_modules())
    handles = [
        modules[name].register_forward_pre_hook(lambda module, args, name=name: turns.update([name])) for name in names
    ]
    try:
        return _forward(model, input_ids, None), turns
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _watched_tokens(backbone: Any, parts: Anatomy, real: Tensor | None, found: Probed) -> Iterator[None]:
    """Measure ρ̂ of every attention's and every block's input, and of the last block's output."""

    def cosines(hidden: Tensor, name: str) -> list[float]:
        try:
            if real is None:  # without padding there is nothing to pick, and no copy to make
                return [mean_cosine(one) for one in hidden]
            return [mean_cosine(one[real[b].to(one.device)]) for b, one in enumerate(hidden)]
        except InputError as reason:
            raise InputError(f"{name}: {reason}; if the dtype is the cause, try --dtype float32") from reason

    def attention_input(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        found.rho_input.append(cosines(_hidden(args, kwargs), "attention input"))

    def block_input(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        found.rho_residual.append(cosines(_hidden(args, kwargs), "residual stream"))

    def last_output(module: Any, args: tuple[Any, ...], output: Any) -> None:
        last.append(output[0] if isinstance(output, tuple) else output)
        del last[:-1]  # a block that is used several times ends the stack with its last turn

    last: list[Tensor] = []
    modules = dict(backbone.named_modules())
    handles = []
    for name in dict.fromkeys(_inside(backbone, layer.name) for layer in parts.layers):
        handles.append(modules[name].register_forward_pre_hook(attention_input, with_kwargs=True))
    for name in parts.block_names:
        handles.append(modules[name].register_forward_pre_hook(block_input, with_kwargs=True))
    if parts.block_names:
        handles.append(modules[parts.block_names[-1]].register_forward_hook(last_output))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    if last:
        found.rho_residual.append(cosines(last[0], "residual stream"))


def _hidden(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    hidden: Tensor = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
    return hidden


def _real_slots(real: Tensor | None, sequence: int, n_slots: int) -> Tensor:
    return torch.arange(n_slots) if real is None else real[sequence].cpu().nonzero()[:, 0]


def _inside(backbone: Any, name: str) -> str:
    """The name inside the backbone of a module that the whole model calls ``name``."""
    modules = dict(backbone.named_modules())
    return name if name in modules else name.removeprefix(f"{backbone.base_model_prefix}.")


def _blocks(backbone: Any, layers: list[AttentionLayer]) -> list[str]:
    """The stack of blocks that holds the attention layers: the children of the list they are numbered in."""
    first = _inside(backbone, layers[0].name)
    numbered = re.match(r"(.*?\.?)(\d+)\.", first)
    if numbered is None:
        return []
    stack = numbered[1].rstrip(".")
    return [f"{stack}.{name}" if stack else name for name, _ in backbone.get_submodule(stack).named_children()]


def _skipped(model: Any, blocks: list[str], layers: list[AttentionLayer]) -> Iterator[tuple[int, str, str]]:
    seen = {layer.layer for layer in layers}
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or []
    for number, name in enumerate(blocks):
        if number not in seen:
            block = model.base_model.get_submodule(name)
            yield number, name, kinds[number] if number < len(kinds) else type(block).__name__
