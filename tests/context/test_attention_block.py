"""The layer with weights: loops over its formula, torch's own attention, the paper's layer, gradients, memory."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from attnlim.context import simplex_step
from attnlim.context.attention_block import (
    Weights,
    block,
    identity_weights,
    random_weights,
    weights_from_projections,
)
from attnlim.core.checks import InputError

Floats = NDArray[np.float64]


def slow_block(x: Floats, weights: Weights, beta: float, alpha: float = 0.0, causal: bool = False) -> Floats:
    """The twin: loops over heads, rows and keys that follow the formula."""
    query, key, value, output = (
        matrix.numpy() for matrix in (weights.query, weights.key, weights.value, weights.output)
    )
    y = np.array([token / math.sqrt(token @ token) for token in x])
    result = alpha * x
    for h in range(len(query)):
        for i in range(len(x)):
            visible = range(i + 1 if causal else len(x))
            terms = np.array([math.exp(beta * float((query[h] @ y[i]) @ (key[h] @ y[j]))) for j in visible])
            mean = sum(a * y[j] for a, j in zip(terms / terms.sum(), visible, strict=True))
            result[i] += output[h].T @ (value[h] @ mean)
    if weights.mlp_in is not None and weights.mlp_out is not None:
        for i, token in enumerate(result.copy()):
            hidden = weights.mlp_in.numpy() @ (token / math.sqrt(token @ token))
            gelu = np.array([u * (1 + math.erf(u / math.sqrt(2))) / 2 for u in hidden])
            result[i] += weights.mlp_out.numpy() @ gelu
    return result


def tokens(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "head_dim", "mlp"), [(1, 3, None), (3, 2, None), (2, 5, 7)])
def test_equals_the_loops(heads: int, head_dim: int, mlp: int | None, causal: bool) -> None:
    x = 3 * tokens(11, 4)
    weights = random_weights(4, heads, head_dim, mlp, seed=1)
    for beta, alpha in ((0.0, 0.0), (2.5, 0.7)):
        slow = slow_block(x.numpy(), weights, beta, alpha, causal)
        # a few roundings of numbers of the order of 10
        np.testing.assert_allclose(block(x, weights, beta, alpha, causal), slow, rtol=0, atol=1e-13)
        fast = block(x.float(), weights.to(x.float()), beta, alpha, causal)
        np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("beta", [0.0, 1.3, 40.0])
def test_identity_weights_are_the_papers_layer(beta: float, causal: bool) -> None:
    x = tokens(9, 5, seed=2)
    paper = block(x, None, beta, 0.4, causal)
    # the products with I are exact but for the order of their sums
    torch.testing.assert_close(block(x, identity_weights(5), beta, 0.4, causal), paper, rtol=0, atol=1e-14)
    np.testing.assert_allclose(paper, slow_block(x.numpy(), identity_weights(5), beta, 0.4, causal), atol=1e-13)


def test_the_papers_layer_agrees_with_the_closed_form_on_a_simplex() -> None:
    n, rho, q, alpha = 20, 0.3, 2.0, 0.5
    gram = q * ((1 - rho) * torch.eye(n, dtype=torch.float64) + rho)
    for gamma in (0.7, 1 / (1 - rho), 3.0):
        after = block(torch.linalg.cholesky(gram), None, gamma * math.log(n), alpha)
        step = simplex_step(n, rho, gamma=gamma, q=q, alpha=alpha)
        wanted = step.q * (step.one_minus_rho * torch.eye(n, dtype=torch.float64) + step.rho)
        torch.testing.assert_close(after @ after.T, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_and_scale_agree_with_torchs_multi_head_attention(causal: bool) -> None:
    n, d, heads = 10, 12, 3
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(d, heads, bias=False, batch_first=True, dtype=torch.float64)
    y = torch.nn.functional.normalize(tokens(n, d), dim=1)
    mask = torch.ones(n, n, dtype=torch.bool).triu(1) if causal else None
    with torch.no_grad():
        wanted = module(y[None], y[None], y[None], need_weights=True, attn_mask=mask)[0][0]
        query, key, value = module.in_proj_weight.chunk(3)
        weights = weights_from_projections(query, key, value, module.out_proj.weight, heads)
        # torch divides scores by the square root of the head size
        ours = block(y, weights, beta=1 / math.sqrt(d // heads), causal=causal)
    torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-14)


def test_grouped_key_heads_serve_consecutive_query_heads() -> None:
    n_heads, groups, k, d = 6, 2, 3, 5
    key = tokens(groups * k, d, seed=1)
    weights = weights_from_projections(tokens(n_heads * k, d), key, 2 * key, tokens(d, n_heads * k), n_heads)
    for head in range(n_heads):
        served = key[k * (head // 3) :][:k]
        assert torch.equal(weights.key[head], served) and torch.equal(weights.value[head], 2 * served)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(2, 12), heads=st.integers(1, 3), mlp=st.sampled_from([None, 4]))
def test_permuting_tokens_permutes_the_result(seed: int, n: int, heads: int, mlp: int | None) -> None:
    x, weights = tokens(n, 4, seed), random_weights(4, heads, 3, mlp, seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    permuted, image = block(x[order], weights, 2.0, 0.3), block(x, weights, 2.0, 0.3)
    torch.testing.assert_close(permuted, image[order], rtol=0, atol=1e-13)


def test_a_causal_row_does_not_see_later_tokens_and_a_full_one_does() -> None:
    x, weights = tokens(8, 4), random_weights(4, 2, 3, 5)
    changed = x.clone()
    changed[5:] = 1.0
    before, after = (block(z, weights, 2.0, 1.0, causal=True) for z in (x, changed))
    torch.testing.assert_close(before[:5], after[:5], rtol=0, atol=1e-14)
    assert float((block(x, weights, 2.0) - block(changed, weights, 2.0))[:5].abs().min()) > 1e-6


def test_scores_ignore_the_length_of_tokens_and_the_residual_does_not() -> None:
    x, weights = tokens(6, 4), random_weights(4, 2, 3)
    for scale in (1e-200, 1e200):  # squares of these would vanish or overflow
        torch.testing.assert_close(block(scale * x, weights, 2.0), block(x, weights, 2.0), rtol=1e-13, atol=0)
    torch.testing.assert_close(block(3 * x, weights, 2.0, 1.0) - block(x, weights, 2.0, 1.0), 2 * x)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients(causal: bool) -> None:
    x, weights = tokens(5, 3), random_weights(3, 2, 2, 4)
    parts = [getattr(weights, field.name) for field in dataclasses.fields(weights)]
    inputs = [part.clone().requires_grad_() for part in (x, *parts)]

    def image(x: Tensor, *parts: Tensor) -> Tensor:
        return block(x, Weights(*parts), 1.5, 0.5, causal)

    assert torch.autograd.gradcheck(image, inputs)
    with sdpa_kernel(SDPBackend.MATH):  # where the docstring says that second derivatives and forward mode work
        assert torch.autograd.gradgradcheck(lambda x: image(x, *parts), inputs[:1])
        forward = torch.func.jacfwd(lambda x: image(x, *parts))(x)
    reverse = torch.func.jacrev(lambda x: image(x, *parts), chunk_size=1)(x)
    torch.testing.assert_close(forward, reverse, rtol=0, atol=1e-13)


class Largest(TorchDispatchMode):
    """The largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for out in result if isinstance(result, tuple) else (result,):
            if isinstance(out, Tensor):
                self.size = max(self.size, out.numel())
        return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
def test_no_n_by_n_matrix_is_held_also_for_the_gradient(dtype: torch.dtype, causal: bool) -> None:
    n, d, heads, k = 600, 6, 2, 4
    x = tokens(n, d).to(dtype).requires_grad_()
    weights = random_weights(d, heads, k).to(x)
    with Largest() as largest:
        block(x, weights, 3.0, causal=causal).sum().backward()
    assert largest.size <= n * max(d, heads * k)
    # the negative control: without the fused kernel the watch sees the matrix of every head
    with Largest() as largest, sdpa_kernel(SDPBackend.MATH):
        block(x, weights, 3.0, causal=causal)
    assert largest.size == heads * n * n


def test_random_weights_keep_lengths_in_expectation() -> None:
    d, draws = 8, 400
    y = torch.nn.functional.normalize(tokens(1, d), dim=1)[0]
    squares = []
    for seed in range(draws):
        weights = random_weights(d, 3, 4, 16, seed)
        assert weights.mlp_in is not None
        moved = torch.einsum("hkd,hke,e->d", weights.output, weights.value, y)
        squares.append(
            [float(vector.square().mean()) for vector in (weights.mlp_in @ y,)]
            + [float(vector.square().sum()) for vector in (weights.query[0] @ y, weights.key[2] @ y, moved)]
        )
    error = np.std(squares, axis=0, ddof=1) / math.sqrt(draws)
    assert np.all(np.abs(np.mean(squares, axis=0) - 1) < 4 * error)
    again = random_weights(d, 3, 4, 16, seed=0)
    assert torch.equal(again.query, random_weights(d, 3, 4, seed=0).query)
    assert not torch.equal(again.query, again.key)


def test_bad_input_is_refused() -> None:
    x, weights = tokens(5, 3), random_weights(3, 2, 2)
    for beta, came in ((-1.0, "-1.0"), (math.nan, "nan"), ([1.0], r"\[1.0\]"), ("warm", "'warm'")):
        with pytest.raises(InputError, match=f"beta must be .*got {came}"):
            block(x, weights, beta)  # type: ignore[arg-type]
    for alpha in (-0.5, math.nan):
        with pytest.raises(InputError, match=r"alpha must be a number in \[0, 1e\+100\]"):
            block(x, weights, 1.0, alpha)
    with pytest.raises(InputError, match="zero norm at token 0"):
        block(torch.zeros_like(x), weights, 1.0)
    with pytest.raises(InputError, match=r"weights must fit tokens of width 3, torch.float32 .* got width 3, torch.f"):
        block(x.float(), weights, 1.0)
    with pytest.raises(InputError, match=r"weights must fit tokens of width 4"):
        block(tokens(5, 4), weights, 1.0)
    good = {"query": weights.query, "key": weights.key, "value": weights.value, "output": weights.output}
    with pytest.raises(InputError, match=r"value must have shape \(2, 2, 3\) to fit query \(2, 2, 3\), got \(1, 2, 3"):
        Weights(**{**good, "value": weights.value[:1]})
    with pytest.raises(InputError, match=r"query must have shape \(heads, head size, width\)"):
        Weights(**{**good, "query": weights.query[0]})
    with pytest.raises(InputError, match="none of them 0"):
        Weights(**dict.fromkeys(good, weights.query[:0]))
    with pytest.raises(InputError, match="mlp_in and mlp_out come together"):
        Weights(**good, mlp_in=torch.ones(4, 3))
    with pytest.raises(InputError, match=r"mlp_out must have shape \(3, 4\)"):
        Weights(**good, mlp_in=torch.ones(4, 3).double(), mlp_out=torch.ones(4, 3).double())
    with pytest.raises(InputError, match="key must be torch.float64 on cpu as query, got torch.float32"):
        Weights(**{**good, "key": weights.key.float()})
    with pytest.raises(InputError, match="output must be finite"):
        Weights(**{**good, "output": weights.output * math.inf})
    with pytest.raises(InputError, match="n_heads must be a whole number of at least 1, got 0"):
        random_weights(3, 0, 2)
    with pytest.raises(InputError, match="mlp_width must be a whole number of at least 1, got 0"):
        random_weights(3, 1, 2, 0)
    wide, tall = tokens(4, 3), tokens(3, 4)
    with pytest.raises(InputError, match=r"query must have shape \(heads · head size, width\), got \(4, 3\), 3 heads"):
        weights_from_projections(wide, wide, wide, tall, 3)
    with pytest.raises(InputError, match=r"key must have shape \(G·2, 3\) with G a divisor of 2"):
        weights_from_projections(wide, wide[:3], wide, tall, 2)
    with pytest.raises(InputError, match=r"output must have shape \(3, 4\), got \(4, 3\)"):
        weights_from_projections(wide, wide, wide, wide, 2)
