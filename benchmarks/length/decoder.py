"""A small pre-norm decoder whose logits carry a factor: none, scalable softmax, or the critical parametrisation.

Three things are unlike a large model's attention, so that minutes of one core are enough: keys are smeared over the token
before (as in "In-context learning and induction heads", 2022), which puts recall within reach of one layer, with and without
positions; there are four layers of width 128; and embeddings are shared with the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnlim.rules import factors

Parametrisation = Literal["softmax", "ssmax", "critical"]
Positions = Literal["nope", "rope", "rope unseen"]
PARAMETRISATIONS: tuple[Parametrisation, ...] = ("softmax", "ssmax", "critical")
POSITIONS: tuple[Positions, ...] = ("nope", "rope", "rope unseen")

Multiplier = Callable[[Tensor, Tensor], Tensor]
"""(position, visible keys) → the factor on a logit, (n,) or (n_heads, n)."""
Watch = Callable[[int, Tensor, Tensor, Tensor], None]
"""Told of every layer: its number, the normalised tokens (B, n, width), queries with their factor and keys (B, H, n, d)."""

SSMAX_START = 0.43
MOST_RHO = 0.95  # beyond it γ_c says more about rounding than about heads
TRACKING = 0.98  # of the moving mean of ρ̂


@dataclass(frozen=True)
class Shape:
    """What a decoder is made of."""

    vocabulary: int
    n_layers: int = 4
    n_heads: int = 4
    width: int = 128
    parametrisation: Parametrisation = "softmax"
    positions: Positions = "nope"
    rope_base: float = 10_000.0

    @property
    def head_dim(self) -> int:
        return self.width // self.n_heads


class Past(NamedTuple):
    """What a layer keeps of the tokens before: keys and values (B, H, n, d), and the last key before it was smeared."""

    keys: Tensor
    values: Tensor
    last: Tensor


class Attention(nn.Module):
    """Causal attention; logit = own factor · multiplier · q·k, q and k of unit length in the critical parametrisation."""

    rho: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.project = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.smear = nn.Parameter(torch.zeros(shape.n_heads))
        if shape.parametrisation == "ssmax":
            self.scale = nn.Parameter(torch.full((shape.n_heads,), SSMAX_START))
        if shape.parametrisation == "critical":
            self.log_gain = nn.Parameter(torch.zeros(shape.n_heads))
            self.register_buffer("rho", torch.full((shape.n_heads,), torch.nan))

    def own_factor(self, position: Tensor, keys: Tensor) -> Tensor:
        r"""What the parametrisation itself puts on q·k; (n,) or (n_heads, n).

        .. math:: 1/\sqrt d, \qquad s_h \ln n/\sqrt d, \qquad \gamma_h \ln n \;\text{ on cosines}
        """
        root: float = self.shape.head_dim**-0.5
        if self.shape.parametrisation == "critical":
            factor: Tensor = factors.scalable_softmax(position, keys, scale=self.gamma()[:, None])
            return factor
        if self.shape.parametrisation == "ssmax":
            slope: Tensor = factors.scalable_softmax(position, keys, scale=self.scale[:, None])
            return slope * root
        return torch.full_like(keys, root, dtype=torch.float32)

    def gamma(self) -> Tensor:
        r"""γ_h of the critical parametrisation: γ_c of the head times a learned factor that begins at 1.

        .. math:: \gamma_h = \frac{e^{g_h}}{1 - \hat\rho_h}
        """
        return self.log_gain.exp() / (1 - self.rho.clamp(max=MOST_RHO))

    def track(self, query: Tensor, key: Tensor) -> None:
        """ρ̂_h: the mean cosine of a query with the keys that it sees, as a moving mean over training; frozen afterwards."""
        with torch.no_grad():
            n = query.shape[2]
            now = (query * key.cumsum(dim=2)).sum(dim=(0, 2, 3)) / (len(query) * n * (n + 1) / 2)
            self.rho.copy_(torch.where(self.rho.isnan(), now, TRACKING * self.rho + (1 - TRACKING) * now))

    def forward(
        self, x: Tensor, turns: Tensor | None, seen: Tensor, multiplier: Multiplier | None, past: Past | None
    ) -> tuple[Tensor, Past, Tensor]:
        heads = self.project(x).unflatten(-1, (3, self.shape.n_heads, -1)).permute(2, 0, 3, 1, 4)
        query, raw, value = heads.unbind()
        before = torch.cat([raw[:, :, :1] if past is None else past.last, raw[:, :, :-1]], dim=2)
        share = torch.sigmoid(self.smear)[:, None, None]
        key = (1 - share) * raw + share * before
        if self.shape.parametrisation == "critical":
            query, key = functional.normalize(query, dim=-1), functional.normalize(key, dim=-1)
        if turns is not None:
            query, key = turned(query, turns), turned(key, turns)
        if self.shape.parametrisation == "critical" and self.training:
            self.track(query, key)
        factor = self.own_factor(seen - 1, seen)
        if multiplier is not None:
            factor = factor * multiplier(seen - 1, seen)
        query = query * factor[..., None]
        if past is not None:
            key, value = torch.cat([past.keys, key], dim=2), torch.cat([past.values, value], dim=2)
        hidden = None if past is None else torch.arange(key.shape[2]) < seen[:, None]
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=hidden, is_causal=past is None, scale=1.0
        )
        return self.out(mixed.transpose(1, 2).flatten(2)), Past(key, value, raw[:, :, -1:]), query


def turned(x: Tensor, turns: Tensor) -> Tensor:
    """Rotary positions: pairs (i, i + d/2) of (B, H, n, d), turned by ``turns`` (B or 1, n, d/2)."""
    left, right = x.chunk(2, dim=-1)
    cos, sin = turns.cos()[:, None], turns.sin()[:, None]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


class Block(nn.Module):
    """Attention and a perceptron, each on normalised tokens and added to them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm, self.perceptron_norm = nn.RMSNorm(shape.width), nn.RMSNorm(shape.width)
        self.attention = Attention(shape)
        self.up = nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.down = nn.Linear(4 * shape.width, shape.width, bias=False)

    def perceptron(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.down(functional.gelu(self.up(self.perceptron_norm(x)), approximate="tanh"))
        return hidden


class Decoder(nn.Module):
    """Tokens to logits of the next token."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(shape.vocabulary, shape.width)
            self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.n_layers))
            self.norm = nn.RMSNorm(shape.width)
            nn.init.normal_(self.embedding.weight, std=1.0)
            for block in self.layers:
                for line in (block.attention.project, block.attention.out, block.up, block.down):
                    into_stream = line is block.attention.out or line is block.down
                    nn.init.normal_(line.weight, std=line.in_features**-0.5 / (2 * shape.n_layers) ** (into_stream / 2))

    @property
    def layers(self) -> list[Block]:
        """The blocks, first to last."""
        return [block for block in self.blocks if isinstance(block, Block)]

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        multipliers: Sequence[Multiplier] | None = None,
        past: Sequence[Past] | None = None,
        watch: Watch | None = None,
        frequencies: Tensor | None = None,
    ) -> tuple[Tensor, list[Past]]:
        """Logits (B, n, vocabulary) and what to hand in again as ``past`` to go on.

        Args:
            tokens: (B, n).
            positions: (B or 1, n), where the tokens stand; None counts on from the past.
            multipliers: one a layer, on top of the parametrisation's own factor.
            past: of the tokens before.
            watch: told of every layer.
            frequencies: (head_dim/2,) of the rotary positions, None for those of training.
        """
        offset = 0 if past is None else past[0].keys.shape[2]
        seen = torch.arange(offset + 1, offset + tokens.shape[1] + 1)
        turns = None
        if self.shape.positions != "nope":
            places = seen[None] - 1 if positions is None else positions
            turns = places[..., None] * (rope_frequencies(self.shape) if frequencies is None else frequencies)
        x, kept = self.embedding(tokens), []
        for number, block in enumerate(self.layers):
            normal = block.attention_norm(x)
            multiplier = None if multipliers is None else multipliers[number]
            added, state, query = block.attention(
                normal, turns, seen, multiplier, None if past is None else past[number]
            )
            if watch is not None:
                watch(number, normal, query, state.keys)
            kept.append(state)
            x = x + added
            x = x + block.perceptron(x)
        return functional.linear(self.norm(x), self.embedding.weight) * self.shape.width**-0.5, kept


def rope_frequencies(shape: Shape) -> Tensor:
    """(head_dim/2,) radians a token."""
    half = shape.head_dim // 2
    return shape.rope_base ** (-torch.arange(half) / half)
