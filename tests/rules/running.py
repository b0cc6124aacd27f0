"""What the tests of attached rules share: prompts, rules that act early, generation in several ways, and the slow twin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.rules import Rule, log_slope, logn

DECODERS = ("llama", "qwen3", "mistral", "gemma2", "gemma3", "gpt2", "opt", "gpt-oss")
WINDOWED = {"mistral": (0, 1, 2), "gemma2": (0, 2), "gemma3": (0, 2), "gpt-oss": (0, 2)}
WINDOW = 24

# acts by position and by visible keys; 2.1 at position 10, above 3 at position 30 without a window
ACTING: Rule = logn(4) * log_slope(4, 0.25)


def tokens(batch: int, n_tokens: int, seed: int = 0) -> Tensor:
    return torch.randint(3, 97, (batch, n_tokens), generator=torch.Generator().manual_seed(seed))


def left_padded(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Prompts of several lengths as a batch, and its attention mask."""
    longest = max(len(row) for row in rows)
    ids = torch.stack([torch.nn.functional.pad(row, (longest - len(row), 0)) for row in rows])
    return ids, torch.stack([torch.nn.functional.pad(torch.ones_like(row), (longest - len(row), 0)) for row in rows])


def generated(model: Any, ids: Tensor, mask: Tensor, **settings: Any) -> tuple[Tensor, Tensor]:
    """New tokens, (batch, n_new), and the logits that they were taken from, (batch, n_new, vocabulary)."""
    n_new = settings.pop("n_new", 10)
    model.generation_config.eos_token_id = None
    made = model.generate(
        ids, attention_mask=mask, max_new_tokens=n_new, do_sample=False, pad_token_id=0, return_dict_in_generate=True,
        output_logits=True, **settings,
    )  # fmt: skip
    return made.sequences[:, ids.shape[1] :], torch.stack(made.logits, dim=1)


WAYS: dict[str, dict[str, Any]] = {
    "no cache": {"use_cache": False},
    "dynamic": {"cache_implementation": "dynamic"},
    "static": {"cache_implementation": "static"},
}


def disagreement(model: Any) -> dict[str, float]:
    """How far the logits of a greedy generation are from those without a cache, one prompt at a time.

    The largest difference for each kind of cache, and for a left-padded batch without and with each cache. A generation that
    takes another token ends the comparison with infinity.
    """
    rows = [tokens(1, length, seed)[0] for seed, length in enumerate((21, 9))]
    alone = [generated(model, row[None], torch.ones_like(row)[None], use_cache=False) for row in rows]
    found = {}
    for name, settings in WAYS.items():
        if name != "no cache":
            each = [generated(model, row[None], torch.ones_like(row)[None], **settings) for row in rows]
            found[name] = max(map(_apart, each, alone))
        chosen, logits = generated(model, *left_padded(rows), **settings)
        found[f"padded, {name}"] = max(
            _apart((chosen[i : i + 1], logits[i : i + 1]), one) for i, one in enumerate(alone)
        )
    return found


def _apart(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> float:
    return float((one[1] - other[1]).abs().max()) if torch.equal(one[0], other[0]) else float("inf")


def visible(kind: str, layer: int, real: Tensor) -> Tensor:
    """(n, n) bool: which keys each slot sees, from the definition of the architecture, not from what the model passes on."""
    n = len(real)
    row, key = torch.arange(n)[:, None], torch.arange(n)
    seen = real.bool()[None].expand(n, n)
    if kind == "bert":
        return seen
    seen = seen & (key <= row)
    return seen & (row - key < WINDOW) if layer in WINDOWED.get(kind, ()) else seen


@contextmanager
def by_hand(model: Any, kind: str, rule: Rule, real: Tensor) -> Iterator[None]:
    """The slow twin: scores, factor, soft cap, mask, sink and softmax written out, with places from the padding alone.

    Args:
        model: a tiny model of ``kind`` without a rule.
        kind: its name in tests/conftest.py.
        rule: factors on the query.
        real: (batch, n) 0 at padding.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    names = {module: name for name, module in model.named_modules()}

    def attention(
        module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
        scaling: float | None = None, softcap: float | None = None, s_aux: Tensor | None = None, **rest: Any,
    ) -> tuple[Tensor, None]:  # fmt: skip
        layer = int(re.findall(r"\d+", names[module])[0])
        groups = query.shape[1] // key.shape[1]
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        out = torch.empty_like(query[..., : value.shape[-1]])
        for b in range(query.shape[0]):
            seen = visible(kind, layer, real[b])
            positions = (real[b].cumsum(0) - 1).clamp(min=0).numpy()
            keys = seen.sum(1).clamp(min=1).numpy()
            for h in range(query.shape[1]):
                factor = torch.from_numpy(np.asarray(rule.parts(positions, keys, layer, h).query) * np.ones(len(keys)))
                scores = query[b, h].double() @ key[b, h // groups].double().T * scaling * factor[:, None]
                if softcap is not None:
                    scores = softcap * torch.tanh(scores / softcap)
                scores = scores.masked_fill(~seen, -1e30)
                if s_aux is not None:
                    scores = torch.cat([scores, s_aux[h].double().expand(len(keys), 1)], dim=1)
                weights = scores.softmax(-1)[:, : len(keys)]
                out[b, h] = (weights @ value[b, h // groups].double()).to(query.dtype)
        return out.transpose(1, 2).contiguous(), None

    before = model.config._attn_implementation
    AttentionInterface.register("by_hand", attention)
    AttentionMaskInterface.register("by_hand", eager_mask)
    model.set_attn_implementation("by_hand")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def logits(model: Any, ids: Tensor, **inputs: Any) -> Tensor:
    """(batch, n, vocabulary), hidden states for an encoder, without a cache."""
    if hasattr(model, "lm_head"):
        inputs.setdefault("use_cache", False)
    with torch.no_grad():
        out: Tensor = model(input_ids=ids, **inputs)[0]
    return out
