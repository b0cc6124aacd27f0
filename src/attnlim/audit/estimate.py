"""What an audit will take: measured on short contexts, extended by the two ways in which a pass over a window grows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from attnlim.audit.head_wishes import measure_wishes
from attnlim.audit.measure import Plan
from attnlim.audit.probing import probe
from attnlim.audit.sampling import sample_rows
from attnlim.core.memory import standing_bytes
from attnlim.core.seeds import generator
from attnlim.models.forward_time import timed_growth
from attnlim.models.next_token import LOGITS_AT_ONCE

# what the watching itself holds beside the model: scores, exponentials, gaps and float64 keys of a chunk
WATCHING_BYTES = 100 * 2**20
# the allocator's share of what a backward pass holds: tensors of many sizes come and go between those that stay
ALLOCATOR = 2.5


@dataclass(frozen=True)
class Estimate:
    """Of a whole audit.

    Attributes:
        seconds: wall time, from timed passes over at most 1024 tokens; right to about a third.
        memory: bytes at the peak: on a CPU of the whole process, elsewhere on the device.
    """

    seconds: float
    memory: int


def estimate(plan: Plan) -> Estimate:
    """Time passes of ``plan`` over two short contexts and extend them as a·n + b·n² to all its cells."""
    seconds = _extended(plan, _probing_seconds)
    if plan.sensitivity:
        seconds += _extended(plan, _wishing_seconds)
    return Estimate(seconds, _memory(plan))


def _extended(plan: Plan, timed: Callable[[Plan, int], float]) -> float:
    """Seconds of one kind of cell over all contexts and windows."""
    growth = timed_growth(lambda n_tokens: timed(plan, n_tokens), plan.contexts[-1])
    return len(plan.windows.starts) * sum(growth.seconds(n) for n in plan.contexts)


def _memory(plan: Plan) -> int:
    """Weights, the activations of one layer, what its attention holds of size n², and what the watching adds."""
    longest, config = plan.contexts[-1], plan.model.config.get_text_config()
    size = next(plan.model.parameters()).element_size()
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    inner = max(inner) if isinstance(inner, (list, tuple)) else inner
    measured = plan.model if plan.sensitivity else plan.model.base_model
    weights = sum(weight.nbytes for weight in measured.parameters())
    activations = longest * (8 * config.hidden_size + 3 * inner) * size
    n_heads = max(layer.n_heads for layer in plan.parts.layers)
    pairs = 0
    if plan.attributes["attention"] == "eager":  # scores, their float32 softmax and its copy in the model's dtype
        pairs = n_heads * longest**2 * (2 * size + 4)
    if any(layer.sliding_window and layer.sliding_window < longest for layer in plan.parts.layers):
        pairs += longest**2 * (size if plan.attributes["attention"] == "eager" else 1)
    keys = 16 * longest * config.hidden_size  # key and query rows in float64, with as many key heads as heads at most
    backward = 0.0
    if plan.sensitivity:  # what every block keeps, the gradients inside one, its n² again, and logits with theirs
        kept = 2 * longest * config.hidden_size * size * len(plan.parts.layers)
        backward = ALLOCATOR * (kept + 2 * activations) + 2 * pairs + 4 * 4 * LOGITS_AT_ONCE
    standing = standing_bytes(weights, plan.attributes["device"])
    return int(standing + max(activations + pairs + keys + WATCHING_BYTES, activations + pairs + backward))


def _probing_seconds(plan: Plan, n_tokens: int) -> float:
    causal = all(layer.causal for layer in plan.parts.layers)
    rows = sample_rows(n_tokens, plan.n_rows, causal, generator(plan.seed, "estimate", n_tokens))
    start = time.perf_counter()
    probe(plan.model, plan.windows.ids(0, n_tokens), torch.from_numpy(rows), plan.parts, k_min=plan.k_min)
    return time.perf_counter() - start


def _wishing_seconds(plan: Plan, n_tokens: int) -> float:
    start = time.perf_counter()
    measure_wishes(plan.model, plan.windows.ids(0, n_tokens), plan.parts, n_tokens.bit_length())
    return time.perf_counter() - start
