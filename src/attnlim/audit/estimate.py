"""What an audit will take: measured on short contexts, extended by the two ways in which a forward grows."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import torch

from attnlim.audit.measure import Plan
from attnlim.audit.probing import probe
from attnlim.audit.sampling import sample_rows
from attnlim.core.seeds import generator

SHORT, LONG = 256, 1024
# what the watching itself holds beside the model: scores, exponentials, gaps and float64 keys of a chunk
WATCHING_BYTES = 100 * 2**20


@dataclass(frozen=True)
class Estimate:
    """Of a whole audit.

    Attributes:
        seconds: wall time, from timed forwards of at most 1024 tokens; right to about a third.
        memory: bytes at the peak: on a CPU of the whole process, elsewhere on the device.
    """

    seconds: float
    memory: int


def estimate(plan: Plan) -> Estimate:
    """Time two short forwards of ``plan`` and extend them as a·n + b·n² to all its cells."""
    longest = plan.contexts[-1]
    sizes = sorted({min(SHORT, longest), min(LONG, longest)})
    _seconds(plan, sizes[0])  # the first forward also pays for memory and kernels that later ones find ready
    # the faster of two: what else runs on the machine only ever adds
    times = [min(_seconds(plan, n), _seconds(plan, n)) for n in sizes]
    linear, square = times[0] / sizes[0], 0.0
    if len(sizes) == 2:
        square = max(0.0, (times[1] / sizes[1] - times[0] / sizes[0]) / (sizes[1] - sizes[0]))
        linear = max(0.0, times[1] / sizes[1] - square * sizes[1])
    windows = len(plan.windows.starts)
    seconds = sum(windows * (linear * n + square * n**2) for n in plan.contexts)
    return Estimate(seconds, _memory(plan))


def _memory(plan: Plan) -> int:
    """Weights, the activations of one layer, what its attention holds of size n², and what the watching adds."""
    longest, config = plan.contexts[-1], plan.model.config.get_text_config()
    size = next(plan.model.parameters()).element_size()
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    inner = max(inner) if isinstance(inner, (list, tuple)) else inner
    weights = sum(weight.nbytes for weight in plan.model.base_model.parameters())
    activations = longest * (8 * config.hidden_size + 3 * inner) * size
    n_heads = max(layer.n_heads for layer in plan.parts.layers)
    pairs = 0
    if plan.attributes["attention"] == "eager":  # scores, their float32 softmax and its copy in the model's dtype
        pairs = n_heads * longest**2 * (2 * size + 4)
    if any(layer.sliding_window and layer.sliding_window < longest for layer in plan.parts.layers):
        pairs += longest**2 * (size if plan.attributes["attention"] == "eager" else 1)
    keys = 16 * longest * config.hidden_size  # key and query rows in float64, with as many key heads as heads at most
    standing = max(weights, _resident()) if plan.attributes["device"] == "cpu" else weights
    return int(standing + activations + pairs + keys + WATCHING_BYTES)


def _resident() -> int:
    """Bytes that this process has held at most; after the timed forwards that is Python, its libraries and the weights."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _seconds(plan: Plan, n_tokens: int) -> float:
    causal = all(layer.causal for layer in plan.parts.layers)
    rows = sample_rows(n_tokens, plan.n_rows, causal, generator(plan.seed, "estimate", n_tokens))
    start = time.perf_counter()
    probe(plan.model, plan.windows.ids(0, n_tokens), torch.from_numpy(rows), plan.parts, k_min=plan.k_min)
    return time.perf_counter() - start
