"""A backward pass through a frozen model in the memory of one block: what a block computed is computed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

# attention without a matrix of it gives little to keep, and is most of the work of a long context
_KEPT = [
    getattr(torch.ops.aten, f"_scaled_dot_product_{kernel}").default
    for kernel in ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Every module is in evaluation mode while the context is open, and afterwards in the mode that it had."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """No weight asks for a gradient and every module is in evaluation mode while the context is open."""
    wanted = [weight for weight in model.parameters() if weight.requires_grad]
    for weight in wanted:
        weight.requires_grad_(False)
    try:
        with evaluating(model):
            yield
    finally:
        for weight in wanted:
            weight.requires_grad_(True)


@contextmanager
def recomputed(model: Any) -> Iterator[None]:
    """Each block of the stack keeps what enters it and what sdpa gives, and runs once more, without sdpa, in the backward pass.

    Same values and same gradients, bit for bit. transformers' own gradient checkpointing would need training mode, in
    which dropout acts. A model without a stack of blocks in one list keeps everything.
    """
    blocks = list(_stack(model))
    given = [block.__dict__.get("forward") for block in blocks]  # accelerate puts its own there
    for block in blocks:
        block.forward = partial(
            checkpoint,
            block.forward,
            use_reentrant=False,
            context_fn=partial(create_selective_checkpoint_contexts, _KEPT),
            preserve_rng_state=False,  # no dropout acts, so there is no random state to give back
        )
    try:
        yield
    finally:
        for block, before in zip(blocks, given, strict=True):
            del block.forward
            if before is not None:
                block.forward = before


def _stack(model: Any) -> nn.ModuleList:
    """The outermost list with as many modules as the config says there are layers; an empty one without."""
    n_layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == n_layers:
            return module
    return nn.ModuleList()
