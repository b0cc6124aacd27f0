"""Statistics of sampled attention rows, exact over all visible keys, inside the forward that computes them.

The scores of the sampled rows are formed in float64 from the model's own query and key, whatever its dtype.
One pass of exponentials serves the attention with the first token (the usual sink) and without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ROW_STATISTICS = (
    "entropy",
    "perplexity",
    "participation",
    "largest_weight",
    "distance",
    "critical_multiplier",
    "largest_logit",
)
"""What is measured of every row with and without the first token; ``sink_mass`` and ``visible`` come on top."""

# A gap that no real score reaches: hidden keys get it, exp(-HIDDEN) is exactly 0 and so is HIDDEN·exp(-HIDDEN)
HIDDEN = 1e300
# float64 scores of one chunk: 8 MB each for scores, exponentials and gaps, so the audit adds little to a forward's peak
CHUNK_ELEMENTS = 1 << 20
# rows of one chunk differ in visible keys by at most this factor, so at most this share of a chunk is padding
CHUNK_SPREAD = 1.25


@dataclass(frozen=True)
class Rows:
    """The sampled query rows of one sequence and what each may see.

    Attributes:
        index: (n_rows,) int64, rows of the query, ascending.
        visible: (n_rows, n_keys) bool.
        first_key: the key that holds the first token of the text (0 without left padding).
    """

    index: Tensor
    visible: Tensor
    first_key: int


def row_statistics(
    query: Tensor,
    key: Tensor,
    rows: Rows,
    scaling: float,
    softcap: float | None = None,
    k_min: int = 10,
    causal: bool = True,
) -> dict[str, Tensor]:
    """Statistics of the attention of sampled rows of one sequence.

    Args:
        query: (n_heads, n_queries, head_dim), any float dtype.
        key: (n_key_heads, n_keys, head_dim); query head h reads key head h·n_key_heads // n_heads.
        rows: the sampled rows.
        scaling: the softmax scale.
        softcap: scores become softcap·tanh(score/softcap) before the softmax.
        k_min: the smallest rank that counts in the gap count.
        causal: no row sees a later key; saves a pass.

    Returns:
        (n_heads, n_rows) float64 each: the names of ``ROW_STATISTICS``, the same with ``_no_sink`` (the attention
        renormalised without the first token), and ``sink_mass``. Entropy in nats; perplexity, participation and
        distance in tokens; the rest dimensionless. ``largest_logit`` is taken before the soft cap. NaN where a row
        sees too few keys for the statistic.

    Cost: O(n_heads · Σ visible keys · head_dim) time; memory: the keys in float64 and O(CHUNK_ELEMENTS). Precision: float64; the gap count
    sorts gaps in float32, relative error 1e-7. Twin: ``attnlim.audit.naive``.
    """
    if query.device.type == "mps":  # has no float64
        query, key, rows = query.cpu(), key.cpu(), Rows(rows.index.cpu(), rows.visible.cpu(), rows.first_key)
    n_heads, n_rows = query.shape[0], len(rows.index)
    n_key_heads, n_keys = key.shape[0], key.shape[1]
    begin = rows.visible.to(torch.int8).argmax(dim=1)
    end = n_keys - rows.visible.flip(1).to(torch.int8).argmax(dim=1)
    picked = query[:, rows.index].double().mul_(scaling).view(n_key_heads, -1, n_rows, query.shape[-1])
    transposed = key.double().transpose(1, 2)

    found: list[dict[str, Tensor]] = []
    for part in _chunks(begin.tolist(), end.tolist(), n_heads):
        low, high = int(begin[part].min()), int(end[part].max())
        mine = picked[:, :, part]
        scores = (mine.reshape(n_key_heads, -1, mine.shape[-1]) @ transposed[:, :, low:high]).view(
            n_heads, -1, high - low
        )
        found.append(
            _chunk_statistics(
                scores,
                rows.visible[part, low:high],
                rows.index[part],
                low,
                rows.first_key,
                softcap,
                k_min,
                causal,
            )
        )
    return {name: torch.cat([chunk[name] for chunk in found], dim=1) for name in found[0]}


def _chunks(begin: list[int], end: list[int], n_heads: int) -> list[slice]:
    """Consecutive rows gathered so that a chunk fits in memory and little of it is padding."""
    parts, first = [], 0
    for row in range(1, len(end) + 1):
        if row < len(end):
            width = max(end[first : row + 1]) - min(begin[first : row + 1])
            shortest = min(e - b for b, e in zip(begin[first : row + 1], end[first : row + 1], strict=True))
            small = n_heads * (row + 1 - first) * width <= CHUNK_ELEMENTS
            if small and (width <= CHUNK_SPREAD * shortest or width <= 64):
                continue
        parts.append(slice(first, row))
        first = row
    return parts


def _chunk_statistics(
    scores: Tensor,
    visible: Tensor,
    index: Tensor,
    low: int,
    first_key: int,
    softcap: float | None,
    k_min: int,
    causal: bool,
) -> dict[str, Tensor]:
    """Statistics of (n_heads, rows, keys) scores whose keys begin at key ``low``; overwrites ``scores``."""
    sink = first_key - low
    rest = visible.clone()
    has_sink = torch.zeros(len(index), dtype=torch.bool, device=scores.device)
    sink_score = scores.new_full(scores.shape[:2], -torch.inf)
    raw_sink = sink_score
    if 0 <= sink < scores.shape[2]:
        has_sink = visible[:, sink]
        raw_sink = torch.where(has_sink, scores[..., sink], -torch.inf)
        rest[:, sink] = False
    scores.masked_fill_(~rest, -torch.inf)
    raw_top = scores.amax(dim=-1)
    top, sink_score = raw_top, raw_sink
    if softcap is not None:
        top, sink_score = _capped(raw_top, softcap), _capped(raw_sink, softcap)
        scores = _capped(scores, softcap).masked_fill_(~rest, -torch.inf)

    # gaps from the largest score of the rest; a row that sees nothing but the sink has no gaps at all
    empty = ~rest.any(dim=1)
    gaps = torch.sub(torch.where(empty, 0.0, top)[..., None], scores, out=scores).masked_fill_(~rest, HIDDEN)
    weights = torch.exp(-gaps)
    total = weights.sum(dim=-1)
    mean_gap = torch.linalg.vecdot(gaps, weights) / total
    squares = torch.linalg.vector_norm(weights, dim=-1).square() / total.square()
    positions = torch.arange(low, low + scores.shape[2], dtype=torch.float64, device=scores.device)
    if causal:
        reach = index - (weights @ positions) / total
    else:
        reach = (weights * (index[:, None] - positions).abs()).sum(dim=-1) / total
    multiplier, multiplier_no_sink = _gap_counts(gaps, rest.sum(dim=1), sink_score - top, has_sink, k_min)

    log_total = total.log()
    without = {
        "entropy": log_total + mean_gap,
        "participation": 1 / squares,
        "largest_weight": 1 / total,
        "distance": reach,
        "largest_logit": raw_top,
    }
    without = {name: torch.where(empty, torch.nan, value) for name, value in without.items()}
    # the sink joins through its log odds against all the rest: exact even where either side is e^-300
    odds = torch.where(empty, torch.inf, sink_score - (torch.where(empty, 0.0, top) + log_total))
    odds = torch.where(has_sink, odds, -torch.inf)
    taken, left = torch.sigmoid(odds), torch.sigmoid(-odds)
    log_taken, log_left = torch.nn.functional.logsigmoid(odds), torch.nn.functional.logsigmoid(-odds)
    own = -(torch.where(taken > 0, taken * log_taken, 0.0) + torch.where(left > 0, left * log_left, 0.0))
    inside = {name: torch.where(left > 0, left * value, 0.0) for name, value in without.items()}
    together = {
        "entropy": own + inside["entropy"],
        "participation": 1 / (taken.square() + torch.where(left > 0, left.square() / without["participation"], 0.0)),
        "largest_weight": torch.maximum(taken, inside["largest_weight"]),
        "distance": taken * (index - first_key).abs() + inside["distance"],
        "largest_logit": torch.maximum(raw_sink, raw_top),
        "critical_multiplier": multiplier,
        "sink_mass": taken,
    }
    together["perplexity"] = together["entropy"].exp()
    without["perplexity"] = without["entropy"].exp()
    without["critical_multiplier"] = multiplier_no_sink
    return together | {f"{name}_no_sink": value for name, value in without.items()}


def _capped(scores: Tensor, softcap: float) -> Tensor:
    return torch.tanh(scores / softcap) * softcap


def _gap_counts(gaps: Tensor, n_rest: Tensor, sink_lead: Tensor, has_sink: Tensor, k_min: int) -> tuple[Tensor, Tensor]:
    """b_c with and without the sink from one sort of the gaps of the rest.

    The sink takes its place among the sorted scores: ahead of it ranks stay, behind it they move up by one, and
    where it leads, every gap grows by its lead.
    """
    gaps = torch.nn.functional.pad(gaps.float(), (0, max(0, k_min - gaps.shape[-1])), value=torch.inf)
    ordered = _sorted(gaps)[..., k_min - 2 :]  # ranks k_min-1, k_min, ... among the rest
    logs = torch.arange(k_min - 1, k_min + ordered.shape[-1], dtype=torch.float32, device=gaps.device).log()
    in_place, moved_up = logs[:-1] / ordered, logs[1:]
    without = in_place[..., 1:].amax(dim=-1)

    lead = sink_lead.clamp(min=0).float()[..., None]
    lag = (-sink_lead).clamp(min=0).float()[..., None]
    behind = ordered >= lag
    ahead = torch.where(behind, 0.0, in_place)[..., 1:].amax(dim=-1)
    after = torch.where(behind, moved_up / (ordered + lead), 0.0).amax(dim=-1)
    sink_rank = 1 + (gaps < lag).sum(dim=-1)
    sink_itself = torch.where(sink_rank >= k_min, sink_rank.float().log() / lag[..., 0], 0.0)
    with_sink = torch.maximum(torch.maximum(ahead, after), sink_itself)

    without = torch.where(n_rest >= k_min, without, torch.nan).double()
    with_sink = torch.where(n_rest + 1 >= k_min, with_sink, torch.nan).double()
    return torch.where(has_sink, with_sink, without), without


def _sorted(values: Tensor) -> Tensor:
    """Ascending along the last axis; on a CPU by numpy, which sorts ten times faster than torch there."""
    if values.device.type == "cpu":
        array = values.numpy()
        array.sort(axis=-1)
        return values
    return values.sort(dim=-1).values
