"""The network and its adjoint against their twins, automatic differentiation and the reference values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlim.core.checks import InputError
from attnlim.depth import adjoint, costates, forward, naive, network

CASES = json.loads((Path(__file__).parents[1] / "reference" / "values.json").read_text())["depth"]


def reference_parameters(case: dict[str, Any]) -> torch.Tensor:
    index = np.indices((case["L"], case["H"], 4, case["k"], case["d"]))
    r, h, m, a, b = index
    return torch.from_numpy(0.8 * np.sin(0.7 + 1.3 * r + 2.1 * h + 0.9 * m + 1.7 * a + 3.3 * b + case["shift"]))


def reference_tokens(case: dict[str, Any]) -> torch.Tensor:
    i, j = np.indices((case["N"], case["d"]))
    shift = case["shift"]
    return torch.from_numpy(np.sin(1 + 3 * i + 7 * j + shift) + 0.5 + 0.1 * np.cos(5 * i * (j + 1) + shift))


def drawn(*shape: int, seed: int = 0, size: float = 1.0) -> torch.Tensor:
    return size * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_autograd(
    theta: torch.Tensor, x: torch.Tensor, target: torch.Tensor, beta: float, weights: torch.Tensor, **options: Any
) -> tuple[torch.Tensor, ...]:
    """∂ℓ/∂θ and ∂ℓ/∂x of every layer of ℓ = Σ_i w_i <x_i, target_i>, for one replica and one sequence."""
    n_layers, n_heads = theta.shape[:2]
    factor = options.get("residual") or 1 / (n_layers * n_heads)
    theta = theta.clone().requires_grad_()
    states = [x.clone().requires_grad_()]
    for r in range(n_layers):
        now = states[-1]
        for h in range(n_heads):
            query, key, value, output = theta[r, h]
            logits = beta * (states[-1] @ query.T) @ (states[-1] @ key.T).T + weights.log()
            if options.get("causal"):
                logits = logits.masked_fill(torch.ones_like(logits, dtype=torch.bool).triu(1), -torch.inf)
            now = now + factor * torch.softmax(logits, dim=1) @ states[-1] @ value.T @ output
        if options.get("post_norm"):
            now = now * now.shape[1] ** 0.5 / now.norm(dim=1, keepdim=True)
        now.retain_grad()
        states.append(now)
    (weights[:, None] * states[-1] * target).sum().backward()
    return theta.grad / factor, torch.stack([state.grad for state in states]) / weights[:, None], states[-1].detach()


@pytest.mark.parametrize("case", CASES)
def test_reference_values(case: dict[str, Any]) -> None:
    theta = reference_parameters(case)
    d = case["d"]
    x = reference_tokens(case)
    tokens = forward(theta, x, case["beta"])
    np.testing.assert_allclose(tokens[-1], case["final_tokens"], rtol=0, atol=1e-12)
    target = torch.linspace(-1, 1, d, dtype=torch.float64)
    last = tokens[-1]
    square = last.square().sum(dim=1, keepdim=True)
    assert float(0.5 * (last.mean(0) - target).square().sum() + 0.025 * square.square().mean()) == pytest.approx(
        case["loss_value"], rel=1e-12
    )
    terminal = (last.mean(0) - target) + 0.1 * square * last
    found = adjoint(theta, tokens, terminal, case["beta"])
    np.testing.assert_allclose(found.adjoint[0], case["adjoint_at_layer_0"], rtol=1e-12, atol=1e-12)
    norms = torch.linalg.vector_norm(found.gradient, dim=(0, 1, 3, 4))
    np.testing.assert_allclose(norms, case["rescaled_grad_norm_QKVO"], rtol=1e-12)
    np.testing.assert_allclose(found.gradient[0, 0], case["rescaled_grad_first"], rtol=1e-11, atol=1e-12)


SIZES = [(1, 1, 1, 1, 1), (3, 2, 2, 5, 4), (2, 1, 5, 3, 6), (4, 3, 2, 2, 1), (2, 3, 1, 4, 9)]  # L, H, k, d, N
OPTIONS = [{}, {"causal": True}, {"post_norm": True}, {"residual": 0.7, "causal": True, "post_norm": True}]


@pytest.mark.parametrize(("n_layers", "n_heads", "head_dim", "width", "n_tokens"), SIZES)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("equal", [True, False])
def test_equals_automatic_differentiation(
    n_layers: int, n_heads: int, head_dim: int, width: int, n_tokens: int, options: dict[str, Any], equal: bool
) -> None:
    theta, x = drawn(n_layers, n_heads, 4, head_dim, width, size=0.8), drawn(n_tokens, width, seed=1)
    weights = torch.ones(n_tokens, dtype=torch.float64) if equal else drawn(n_tokens, seed=2).exp()
    target = drawn(n_tokens, width, seed=3)
    share = weights / weights.sum()
    tokens = forward(theta, x, 1.3, weights, **options)
    found = adjoint(theta, tokens, target, 1.3, weights, **options)
    gradient, costates, last = by_autograd(theta, x, target, 1.3, share, **options)
    # a few rounding errors of quantities of order one, which depth multiplies by less than ten
    torch.testing.assert_close(tokens[-1], last, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(found.adjoint, costates, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.gradient, gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("n_layers", "n_heads", "head_dim", "width", "n_tokens"), SIZES)
@pytest.mark.parametrize("causal", [False, True])
def test_equals_its_twin(n_layers: int, n_heads: int, head_dim: int, width: int, n_tokens: int, causal: bool) -> None:
    theta, x = drawn(n_layers, n_heads, 4, head_dim, width), drawn(n_tokens, width, seed=1)
    weights = drawn(n_tokens, seed=2).exp()
    tokens = forward(theta, x, 0.7, weights, causal=causal)
    twin = naive.forward(theta.numpy(), x.numpy(), 0.7, weights.numpy(), causal=causal)
    np.testing.assert_allclose(tokens, twin, rtol=1e-13, atol=1e-13)
    terminal = drawn(n_tokens, width, seed=3)
    found = adjoint(theta, tokens, terminal, 0.7, weights, causal=causal)
    costates, gradient = naive.adjoint(theta.numpy(), twin, terminal.numpy(), 0.7, weights.numpy(), causal)
    np.testing.assert_allclose(found.adjoint, costates, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-12, atol=1e-12)


def test_a_layer_index_off_by_one_would_be_seen() -> None:
    """The gradient of layer r pairs x^r with a^{r+1}; the neighbours differ by more than any tolerance here."""
    theta, x = drawn(3, 1, 4, 2, 3), drawn(5, 3, seed=1)
    tokens = forward(theta, x)
    found = adjoint(theta, tokens, drawn(5, 3, seed=2))
    right = found.gradient[1, 0, 3]
    for state, costate, same in ((1, 2, True), (1, 1, False), (2, 2, False), (0, 1, False)):
        _, _, g = naive.attend(
            *(theta[1, 0, m].numpy() for m in (0, 1)), tokens[state].numpy(), 1.0, np.full(5, 0.2), False
        )
        value = theta[1, 0, 2].numpy()
        output = sum(0.2 * np.outer(value @ g[i], found.adjoint[costate, i]) for i in range(5))
        assert np.allclose(right, output, rtol=1e-12, atol=1e-14) is same


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), times=st.integers(2, 4))
def test_replicating_tokens_changes_nothing(seed: int, times: int) -> None:
    theta, x, terminal = drawn(2, 2, 4, 2, 3, seed=seed), drawn(4, 3, seed=seed + 1), drawn(4, 3, seed=seed + 2)
    once, often = forward(theta, x), forward(theta, x.repeat(times, 1))
    torch.testing.assert_close(often, once.repeat(1, times, 1), rtol=1e-13, atol=1e-13)
    one, many = adjoint(theta, once, terminal), adjoint(theta, often, terminal.repeat(times, 1))
    torch.testing.assert_close(many.adjoint, one.adjoint.repeat(1, times, 1), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(many.gradient, one.gradient, rtol=1e-12, atol=1e-12)
    # and a weight is as good as copies
    weights = torch.tensor([float(times), 1.0, 1.0, 1.0])
    copies = torch.cat([x[:1].repeat(times, 1), x[1:]])
    torch.testing.assert_close(forward(theta, x, weights=weights)[-1, 1:], forward(theta, copies)[-1, times:])


def test_replicas_and_sequences_are_independent() -> None:
    theta, x = drawn(2, 3, 3, 2, 4, 2, 3), drawn(2, 3, 5, 6, 3, seed=1)
    terminal = drawn(2, 3, 5, 6, 3, seed=2)
    tokens = forward(theta, x)
    found = adjoint(theta, tokens, terminal)
    assert tokens.shape == (4, 2, 3, 5, 6, 3) and found.gradient.shape == theta.shape
    alone = [forward(theta[1, 2], x[1, 2, s]) for s in range(5)]
    torch.testing.assert_close(tokens[:, 1, 2], torch.stack(alone, dim=1), rtol=1e-13, atol=1e-13)
    gradients = [adjoint(theta[1, 2], alone[s], terminal[1, 2, s]).gradient for s in range(5)]
    torch.testing.assert_close(found.gradient[1, 2], torch.stack(gradients).mean(0), rtol=1e-12, atol=1e-12)
    # one sequence for every replica
    torch.testing.assert_close(forward(theta, x[0, 0, 0])[:, 1, 2], forward(theta[1, 2], x[0, 0, 0]))


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.tuples(*(st.integers(1, n) for n in (2, 2, 3, 3, 6, 3, 7))),
    causal=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_every_way_of_multiplying_equals_the_twin(sizes: tuple[int, ...], causal: bool, seed: int) -> None:
    """Sequences beside each other or apart, widths with and without zeros behind them: sizes choose between them."""
    n_replicas, n_layers, n_heads, head_dim, width, n_sequences, n_tokens = sizes
    theta = drawn(n_replicas, n_layers, n_heads, 4, head_dim, width, seed=seed)
    x, terminal, weights = (
        drawn(n_replicas, n_sequences, n_tokens, width, seed=seed + 1),
        drawn(n_replicas, n_sequences, n_tokens, width, seed=seed + 2),
        drawn(n_replicas, n_sequences, n_tokens, seed=seed + 3).exp(),
    )
    tokens = forward(theta, x, 0.7, weights, causal=causal)
    found = adjoint(theta, tokens, terminal, 0.7, weights, causal=causal)
    for r in range(n_replicas):
        gradients = []
        for s in range(n_sequences):
            one = theta[r].numpy(), x[r, s].numpy(), terminal[r, s].numpy(), weights[r, s].numpy()
            twin = naive.forward(one[0], one[1], 0.7, one[3], causal=causal)
            # rounding of quantities of order ten
            np.testing.assert_allclose(tokens[:, r, s], twin, rtol=1e-12, atol=1e-12)
            right, gradient = naive.adjoint(one[0], twin, one[2], 0.7, one[3], causal)
            np.testing.assert_allclose(found.adjoint[:, r, s], right, rtol=1e-11, atol=1e-11)
            gradients.append(gradient)
        np.testing.assert_allclose(found.gradient[r], np.mean(gradients, axis=0), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("n_heads", "width", "n_tokens", "apart", "wider"),
    [(1, 4, 8, True, True), (16, 4, 8, True, False), (1, 64, 8, False, False), (3, 3, 2, False, False)],
)
def test_which_way_sizes_choose(n_heads: int, width: int, n_tokens: int, apart: bool, wider: bool) -> None:
    (matrices,) = network.head_matrices(drawn(2, 1, n_heads, 4, 2, width), 1.0)
    x = drawn(2, 5, n_tokens, width)
    groups, tokens = network.spread(matrices, x)
    assert (groups.shape[1], tokens.shape[:2]) == ((10, (10, 1)) if apart else (2, (2, 5)))
    wide, padded = network.padded(x, matrices)
    assert (wide.shape[-1] > width) is (padded.shape[-1] > width) is wider
    assert wide.shape[-1] == padded.shape[2] == padded.shape[-1]


def test_expanded_arguments_are_as_good_as_copies() -> None:
    theta, x = drawn(2, 3, 4, 2, 4), drawn(1, 3, 5, 4, seed=1).expand(2, 3, 5, 4)
    a, log_weights = drawn(5, 3, 2, 4, seed=2).permute(2, 1, 0, 3), torch.full((1,), 0.2).double().log().expand(2, 3, 5)
    arguments = (theta, x, a, log_weights)
    copies = [argument.clone(memory_format=torch.contiguous_format) for argument in arguments]
    for found, wanted in zip(
        costates.layer_adjoint(*arguments, 1.0, False), costates.layer_adjoint(*copies, 1.0, False), strict=True
    ):
        assert torch.equal(found, wanted)
    assert torch.equal(
        network.layer_output(theta, x, log_weights, 1.0, False),
        network.layer_output(copies[0], copies[1], copies[3], 1.0, False),
    )


def test_far_logits_neither_overflow_nor_lose_the_mean() -> None:
    """At |logits| of 10^4 attention is on one key, with unequal weights as well."""
    theta = torch.eye(2, dtype=torch.float64).expand(1, 1, 4, 2, 2)
    x = torch.tensor([[100.0, 0.0], [0.0, 1.0], [99.0, 0.0]], dtype=torch.float64)
    moved = forward(theta, x, weights=torch.tensor([1e-12, 1.0, 1.0]).double())[1] - x
    assert torch.equal(moved[0], x[0]) and torch.equal(moved[2], x[0])


def test_layers_in_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    theta, x, terminal = drawn(2, 5, 2, 4, 2, 3), drawn(2, 4, 3, seed=1), drawn(2, 4, 3, seed=2)
    tokens = forward(theta, x)
    whole = adjoint(theta, tokens, terminal)
    monkeypatch.setattr(network, "_MATRICES", 2 * 2 * 2 * 2 * 3**2)  # two layers at a time
    assert [len(block) for block in network.layer_blocks(theta)] == [2, 2, 1]
    assert torch.equal(forward(theta, x), tokens)
    parts = adjoint(theta, tokens, terminal)
    assert torch.equal(parts.adjoint, whole.adjoint) and torch.equal(parts.gradient, whole.gradient)


def test_heads_in_groups_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    theta, x, terminal = drawn(2, 5, 4, 2, 3), drawn(2, 4, 3, seed=1), drawn(2, 4, 3, seed=2)
    tokens = forward(theta, x)
    whole = adjoint(theta, tokens, terminal)
    monkeypatch.setitem(network._WEIGHTS, "cpu", 2 * 2 * 4**2)  # two heads at a time
    torch.testing.assert_close(forward(theta, x), tokens, rtol=1e-13, atol=1e-13)
    parts = adjoint(theta, tokens, terminal)
    torch.testing.assert_close(parts.adjoint, whole.adjoint, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(parts.gradient, whole.gradient, rtol=1e-13, atol=1e-13)


THETA = torch.ones(2, 1, 4, 2, 3)


@pytest.mark.parametrize(
    ("theta", "x", "message"),
    [
        (torch.ones(2, 0, 4, 2, 3), torch.ones(5, 3), "no empty axis"),
        (torch.ones(2, 1, 3, 2, 3), torch.ones(5, 3), "query, key, value, output"),
        (THETA, torch.ones(5, 4), "to fit theta"),
        (THETA, torch.ones(5, 3, dtype=torch.float64), "torch.float32"),
        (THETA * torch.nan, torch.ones(5, 3), "diverged"),
        (THETA, torch.full((5, 3), torch.inf), "x must be finite"),
        (torch.ones(7, 2, 1, 4, 2, 3), torch.ones(5, 5, 3), "leading axes"),
        (THETA.long(), torch.ones(5, 3), "float32 or float64"),
    ],
)
def test_bad_arguments(theta: torch.Tensor, x: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        forward(theta, x)


def test_bad_weights_targets_and_beta() -> None:
    x = torch.ones(5, 3)
    for weights in (torch.zeros(5), torch.ones(4), torch.full((5,), torch.nan)):
        with pytest.raises(InputError, match="weights must"):
            forward(THETA, x, weights=weights)
    with pytest.raises(InputError, match="beta"):
        forward(THETA, x, -1.0)
    with pytest.raises(InputError, match="terminal must be finite"):
        adjoint(THETA, forward(THETA, x), x * torch.nan)
    with pytest.raises(InputError, match="tokens must have shape"):
        adjoint(THETA, forward(THETA, x)[:-1], x)
