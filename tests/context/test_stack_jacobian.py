"""The Jacobian of a stack: autograd through it, one layer by the other formula, the law of large n, bad input."""

import math

import numpy as np
import pytest
import torch

from attnlim.context.simplex_energy import simplex_jacobian
from attnlim.context.stack_jacobian import simplex_stack
from attnlim.core.checks import InputError


def by_autograd(n: int, width: int, rho: float, betas: list[float], q: float, alpha: float) -> torch.Tensor:
    gram = q * ((1 - rho) * np.eye(n) + rho)
    root = np.zeros((n, width))
    root[:, :n] = np.linalg.cholesky(gram)
    rotation = np.linalg.qr(np.random.default_rng(3).standard_normal((width, width)))[0]

    def stack(x: torch.Tensor) -> torch.Tensor:
        for beta in betas:
            y = x / x.norm(dim=1, keepdim=True)
            x = torch.softmax(beta * y @ y.T, 1) @ y + alpha * x
        return x

    jacobian = torch.autograd.functional.jacobian(stack, torch.from_numpy(root @ rotation))
    assert isinstance(jacobian, torch.Tensor)
    return jacobian.reshape(n * width, n * width)


@pytest.mark.parametrize(("n", "width"), [(2, 2), (2, 4), (3, 3), (4, 4), (5, 8)])
@pytest.mark.parametrize("place", [0.05, 0.6, 0.97])
@pytest.mark.parametrize(("q", "alpha"), [(1.0, 0.0), (2.0, 0.6)])
@pytest.mark.parametrize("betas", [[1.5], [6.0, 0.4, 3.0]])
def test_autograd_through_the_stack(
    n: int, width: int, place: float, q: float, alpha: float, betas: list[float]
) -> None:
    rho = -1 / (n - 1) + place * (1 + 1 / (n - 1))
    jacobian = by_autograd(n, width, rho, betas, q, alpha)
    found = simplex_stack(n, len(betas), width, rho, beta=betas, q=q, alpha=alpha)
    # products of three 40 × 40 matrices; singular values near ρ = 1 pass through a norm of 1e-3
    assert found.eta[-1] == pytest.approx(float((jacobian**2).mean()) * n * width, rel=1e-11)
    assert found.largest[-1] == pytest.approx(float(torch.linalg.matrix_norm(jacobian, 2)), rel=1e-11)
    assert found.eta[0] == 1 and found.largest[0] == 1


@pytest.mark.parametrize("n", [2, 3, 48, 10**6, 10**160, 10**300, 10**400], ids=lambda n: f"{math.log10(n):.3g}")
@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0, 1.3])
@pytest.mark.parametrize("one_minus_rho", [1e-12, 0.5, 1.0])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_one_layer_by_the_other_formula(n: int, scale: float, one_minus_rho: float, alpha: float) -> None:
    if one_minus_rho == 1 and n == 10**400:
        one_minus_rho = 0.9  # orthogonal tokens have an output of norm 1/√n, below the float range
    beta = scale * math.log(n) / one_minus_rho
    for width in (n, n + 5, 3 * n):
        one = simplex_jacobian(n, width, one_minus_rho=one_minus_rho, beta=beta, q=2.0, alpha=alpha)
        stack = simplex_stack(n, 1, width, one_minus_rho=one_minus_rho, beta=beta, q=2.0, alpha=alpha)
        # rounding of ln η, which is at most 2 ln n, and of the exponent of p, the same in both
        slack = 1e-14 * (4 + 2 * math.log(n))
        assert stack.eta[1] == pytest.approx(one.total, rel=slack, abs=1e-305)


def test_at_large_n_gains_multiply() -> None:
    """η_L → Π (p_l/√q_l + α)²; the corrections are those of one layer, (ln n)²/n at γ_c."""
    for alpha in (0.0, 0.5):
        for gamma, n in ((2.0, 10**12), (2.6, 10**12)):
            stack = simplex_stack(n, 3, n, 0.5, gamma=gamma, q=1.5, alpha=alpha)
            gains = stack.cascade.self_weight / np.sqrt(stack.cascade.q[:-1]) + alpha
            wanted = np.concatenate([[1.0], np.cumprod(gains**2)])
            kept = wanted > 1e-6  # where p itself is not of the order of the corrections
            assert stack.eta[kept] == pytest.approx(wanted[kept], rel=1e-4)


def test_small_stacks_do_not_multiply() -> None:
    """The control: at n = 5 the product of the layers' own η is another number."""
    stack = simplex_stack(5, 3, 5, 0.3, beta=2.0)
    cascade = stack.cascade
    alone = [
        simplex_jacobian(5, 5, float(rho), beta=2.0, q=float(q)).total
        for rho, q in zip(cascade.rho[:-1], cascade.q[:-1], strict=True)
    ]
    assert abs(stack.eta[-1] / math.prod(alone) - 1) > 0.1


def test_logarithm_goes_on_where_eta_leaves_the_float_range() -> None:
    stack = simplex_stack(10**300, 40, 10**300, 0.5, gamma=1.0)
    # what is left of collapsed tokens moves all of them alike: one direction in n
    assert stack.log_eta[-1] == pytest.approx(-math.log(10**300), rel=0.01)
    tiny = simplex_stack(10**400, 4, 10**400, 0.5, gamma=1.0)
    assert tiny.eta[-1] == 0 and tiny.log_eta[-1] == pytest.approx(-math.log(10**400), rel=0.01)
    growing = simplex_stack(10, 200, 10, 0.5, beta=1.0, q=1e-308, alpha=3.0)
    # a first layer of 1/√q, and far on norms are large and each layer is 3 times its input
    assert growing.eta[-1] == math.inf
    assert growing.log_eta[-1] - growing.log_eta[-2] == pytest.approx(2 * math.log(3), rel=1e-12)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="width must be at least n_tokens for a simplex, got 9 for 10 tokens"):
        simplex_stack(10, 2, 9, 0.5, gamma=1.0)
    with pytest.raises(InputError, match="gamma must be a number or one a layer"):
        simplex_stack(10, 2, 10, 0.5, gamma=[1.0])
    with pytest.raises(
        InputError, match="layer 323 of 2000: the squared norm after the layer must be a finite number, got inf"
    ):
        simplex_stack(10, 2000, 10, 0.5, beta=1.0, alpha=3.0)
    with pytest.raises(InputError, match="alpha must be"):
        simplex_stack(10, 2, 10, 0.5, gamma=1.0, alpha=-1.0)
