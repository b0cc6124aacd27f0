"""The small decoder: causal, relative in its positions, the same step by step, and with the factors that it says it has."""

from __future__ import annotations

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from benchmarks.length.decoder import (
    MOST_RHO,
    PARAMETRISATIONS,
    POSITIONS,
    Attention,
    Decoder,
    Multiplier,
    Parametrisation,
    Positions,
    Shape,
    rope_frequencies,
)
from benchmarks.length.multipliers import CRITICAL, FROZEN, LOG, NONE, SQUARE_ROOT, YARN, multipliers, yarn_frequencies
from torch import Tensor
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from attnlim import rules
from attnlim.rules import factors

KINDS = list(product(PARAMETRISATIONS, POSITIONS))


def tiny(parametrisation: Parametrisation = "softmax", positions: Positions = "nope", **sizes: int) -> Decoder:
    """A decoder whose learned factors differ between heads, in float64."""
    shape = Shape(
        **{"vocabulary": 50, "n_layers": 2, "n_heads": 2, "width": 16} | sizes,
        parametrisation=parametrisation,
        positions=positions,
    )  # type: ignore[arg-type]
    model = Decoder(shape, seed=1).double()
    rng = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for block in model.blocks:
            one = block.attention
            one.smear.copy_(torch.randn(2, generator=rng))
            if parametrisation == "ssmax":
                one.scale.copy_(torch.tensor([0.3, 0.8]))
            if parametrisation == "critical":
                one.log_gain.copy_(torch.tensor([0.5, -0.2]))
                one.rho.copy_(torch.tensor([0.25, -0.1]))
    return model.eval()


def tokens_of(n: int, n_sequences: int = 2) -> Tensor:
    return torch.randint(50, (n_sequences, n), generator=torch.Generator().manual_seed(3))


@torch.no_grad()
@pytest.mark.parametrize(("parametrisation", "positions"), KINDS)
def test_no_token_sees_the_future(parametrisation: Parametrisation, positions: Positions) -> None:
    model, tokens = tiny(parametrisation, positions), tokens_of(20)
    other = tokens.clone()
    other[:, 12] = (other[:, 12] + 1) % 50
    before, after = model(tokens)[0], model(other)[0]
    assert torch.equal(before[:, :12], after[:, :12])
    assert not torch.equal(before[:, 12:], after[:, 12:])


@torch.no_grad()
@pytest.mark.parametrize(("parametrisation", "positions"), KINDS)
@pytest.mark.parametrize("sizes", [(1,) * 23, (7, 1, 15)])
def test_step_by_step_is_all_at_once(
    parametrisation: Parametrisation, positions: Positions, sizes: tuple[int, ...]
) -> None:
    model, tokens = tiny(parametrisation, positions), tokens_of(23)
    chosen: list[Multiplier] = [partial(factors.logn, trained=8)] * 2
    whole, _ = model(tokens, multipliers=chosen)
    past, parts = None, []
    for part in tokens.split(sizes, dim=1):
        logits, past = model(part, multipliers=chosen, past=past)
        parts.append(logits)
    # a rule's logarithms are float32; everything else is float64
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("parametrisation", PARAMETRISATIONS)
def test_rotary_positions_are_relative(parametrisation: Parametrisation) -> None:
    model, tokens = tiny(parametrisation, "rope"), tokens_of(20)
    exact = rope_frequencies(model.shape).double()
    plain, _ = model(tokens, frequencies=exact)
    moved, _ = model(tokens, positions=torch.arange(20)[None] + 4000, frequencies=exact)
    # angles of up to 4000 rad in float64
    assert torch.allclose(plain, moved, atol=1e-9)
    gap = torch.arange(20)[None] + 4000 * (torch.arange(20) >= 10)
    assert not torch.allclose(plain, model(tokens, positions=gap, frequencies=exact)[0], atol=1e-3)


@torch.no_grad()
def test_without_positions_none_are_used() -> None:
    model, tokens = tiny(), tokens_of(20)
    assert torch.equal(model(tokens)[0], model(tokens, positions=torch.arange(20)[None] * 7)[0])


def own_rule(one: Attention, row: int, head: int) -> float:
    """The parametrisation's factor at a row, from the catalogue of the library."""
    root = one.shape.head_dim**-0.5
    if one.shape.parametrisation == "ssmax":
        return root * float(rules.ssmax(one.scale.detach().double().numpy()).parts(row, head=head).query)
    if one.shape.parametrisation == "critical":
        gamma_c = 1 / (1 - min(float(one.rho[head]), MOST_RHO))
        return float(torch.exp(one.log_gain[head])) * gamma_c * math.log(row + 1)
    return root


@torch.no_grad()
@pytest.mark.parametrize("parametrisation", PARAMETRISATIONS)
def test_attention_is_the_slow_twin(parametrisation: Parametrisation) -> None:
    """Row by row, with factors from the catalogue; log on top."""
    one = tiny(parametrisation, "rope").blocks[0].attention
    n, heads, d = 11, 2, 8
    x = torch.randn(1, n, 16, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    turns = torch.arange(n)[None, :, None] * torch.tensor([1.0, 0.3, 0.1, 0.02], dtype=torch.float64)
    seen = torch.arange(1, n + 1)
    got, _, _ = one(x, turns, seen, partial(factors.logn, trained=4), None)

    weights = one.project.weight.numpy()
    projected = x[0].numpy() @ weights.T
    expected = np.zeros((n, 16))
    for head in range(heads):
        query, key, value = (projected[:, 16 * k + d * head : 16 * k + d * head + d] for k in range(3))
        share = 1 / (1 + math.exp(-float(one.smear[head])))
        key = np.array([(1 - share) * key[i] + share * key[max(i - 1, 0)] for i in range(n)])
        if parametrisation == "critical":
            query, key = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (query, key))

        def turn(row: np.ndarray, place: int) -> np.ndarray:
            pairs = (row[:4] + 1j * row[4:]) * np.exp(1j * turns[0, place].numpy())
            return np.concatenate([pairs.real, pairs.imag])

        for i in range(n):
            factor = own_rule(one, i, head) * rules.logn(4).parts(i).query
            logits = np.array([factor * turn(query[i], i) @ turn(key[j], j) for j in range(i + 1)])
            share_of = np.exp(logits - logits.max())
            expected[i, d * head : d * head + d] = share_of / share_of.sum() @ value[: i + 1]
    # the factors' logarithms are float32 inside the decoder
    assert np.abs(got[0].numpy() - expected @ one.out.weight.numpy().T).max() < 1e-5


@torch.no_grad()
def test_rho_of_a_head_is_the_mean_cosine_of_what_it_sees() -> None:
    one = Attention(Shape(vocabulary=5, n_heads=2, width=16, parametrisation="critical"))
    query, key = torch.nn.functional.normalize(
        torch.randn(2, 3, 2, 9, 8, generator=torch.Generator().manual_seed(0)), dim=-1
    )
    one.track(query, key)
    pairs = [(b, i, j) for b in range(3) for i in range(9) for j in range(i + 1)]
    for head in range(2):
        exact = np.mean([float(query[b, head, i] @ key[b, head, j]) for b, i, j in pairs])
        assert float(one.rho[head]) == pytest.approx(exact, abs=1e-6)
    first = one.rho.clone()
    one.track(-query, key)
    assert torch.allclose(one.rho, (0.98 - 0.02) * first)
    # the gains begin at 1: γ_h = γ_c
    assert torch.allclose(one.gamma(), 1 / (1 - one.rho))


def test_arms_begin_alike() -> None:
    """Apart from what a parametrisation adds, so that a seed's runs are paired."""
    states = [Decoder(Shape(50, 2, 2, 16, kind), seed=7).state_dict() for kind in PARAMETRISATIONS]
    shared = set.intersection(*(set(state) for state in states))
    assert len(shared) == 2 + 2 * 7
    for name in shared:
        assert torch.equal(states[0][name], states[1][name]) and torch.equal(states[0][name], states[2][name]), name


@pytest.mark.parametrize("n", [256, 700, 4096])
def test_multipliers_are_those_of_the_catalogue(n: int) -> None:
    exponents = np.array([[0.3, 1.2], [0.7, np.nan]])
    keys = torch.arange(1, n + 1)
    positions = np.arange(n)
    known = {
        NONE: rules.none(), "0.7": rules.constant(0.7), LOG: rules.logn(256), SQUARE_ROOT: rules.critical(256, 0.5),
        FROZEN: rules.frozen_log(256, n), CRITICAL: rules.critical(256, np.nan_to_num(exponents)),
    }  # fmt: skip
    for name, rule in known.items():
        for layer, one in enumerate(multipliers(name, n, 256, exponents)):
            # float32 against float64
            assert np.allclose(one(keys - 1, keys).numpy(), rule.parts(positions, layer=layer).query, atol=2e-6), name
    stretched = multipliers(YARN, n, 256, exponents)[0](keys - 1, keys)
    assert np.allclose(stretched.numpy(), rules.yarn(max(n / 256, 1)).parts(0).logit.rotary)


@pytest.mark.parametrize("factor", [1.0, 4.0, 16.0])
def test_stretched_frequencies_are_those_of_transformers(factor: float) -> None:
    shape = Shape(vocabulary=5)
    config = LlamaConfig(
        hidden_size=128, num_attention_heads=4, head_dim=32, max_position_embeddings=256,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10_000.0, "factor": factor, "original_max_position_embeddings": 256},
    )  # fmt: skip
    expected, _ = ROPE_INIT_FUNCTIONS["yarn"](config, torch.device("cpu"))
    assert torch.allclose(yarn_frequencies(shape, factor, 256), expected, rtol=1e-5)
