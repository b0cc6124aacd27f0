"""What a comparison of rules will take, from short forwards on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass

from attnlim.core.memory import standing_bytes
from attnlim.models.forward_cost import forward_cost
from attnlim.models.forward_time import timed_growth
from attnlim.models.next_token import LOGITS_AT_ONCE, next_token_nll
from attnlim.rules.rescale_plan import Plan

# tokens of the forwards that are timed: below some thousand, what pairs cost is lost beside what tokens cost
SHORT, LONG = 512, 4096
# the allocator's share: tensors of many sizes come and go between those that stay
ALLOCATOR = 1.5


@dataclass(frozen=True)
class Estimate:
    """Of a whole comparison.

    Attributes:
        seconds: wall time, right to about a third.
        memory: bytes at the peak, weights included.
    """

    seconds: float
    memory: int


def estimate(plan: Plan) -> Estimate:
    """Time two short forwards of ``plan`` and extend them to all its cells."""

    def seconds(n_tokens: int) -> float:
        start = time.perf_counter()
        # an accelerator has only been told what to do until a number comes back
        float(next_token_nll(plan.model, plan.windows["test"][0][:, :n_tokens]).sum())
        return time.perf_counter() - start

    growth = timed_growth(seconds, plan.trained, SHORT, LONG)
    # cells count their work in operations; a forward of the target says how long one takes
    cost = sum(cell.cost for cell in plan.cells()) + plan.prefix_cost()
    return Estimate(cost / forward_cost(plan.model, plan.target) * growth.seconds(plan.target), _memory(plan))


def _memory(plan: Plan) -> int:
    """What stands after the timed forwards, keys and values of two caches, what enters each block, one block's own, a mask, and some logits."""
    config, size = plan.model.config.get_text_config(), next(plan.model.parameters()).element_size()
    weights = sum(weight.nbytes for weight in plan.model.parameters())
    n_key_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cached = 2 * config.num_hidden_layers * n_key_heads * head_dim * size
    derived = plan.target if plan.derives_whole else plan.target - plan.trained
    masked = 0 if plan.derives_whole else derived * plan.target * (1 + 4)
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    block = (8 * config.hidden_size + 3 * inner) * size
    entering = config.num_hidden_layers * config.hidden_size * size
    caches = cached * (plan.trained + 2 * plan.target)
    run = block * plan.target
    if plan.starts:
        run = max(run, (entering + 2 * block) * derived + masked)
    standing = standing_bytes(weights, plan.attributes["device"])
    return int(standing + ALLOCATOR * (caches + run) + 3 * 4 * LOGITS_AT_ONCE)
