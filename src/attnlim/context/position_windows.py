"""Attention by content beside a window of fixed positions that holds as many tokens."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import signal
from torch import Tensor

from attnlim.context.arguments import Beta, checked_tokens, inverse_temperatures, unit_tokens
from attnlim.context.attention_block import block
from attnlim.context.cosine import mean_cosine
from attnlim.context.row_focus import focus
from attnlim.core.checks import real_number, whole_number
from attnlim.core.seeds import generator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WindowComparison:
    """Mean attended cosines of content attention and of a window; arrays () for one β, (n_betas,) for a sequence.

    Attributes:
        perplexity: e^H of content attention, mean over rows, which the window matches; tokens.
        half_width: w of the window, between whole numbers where two windows are mixed; tokens.
        content: mean attended cosine of content attention, dimensionless.
        content_permuted: the same after one permutation of the tokens.
        window: mean attended cosine of the window.
        window_permuted: the same after a permutation, mean over permutations.
        window_permuted_standard_error: of that mean.
        window_permuted_expected: its expectation over all permutations, in closed form.
        rho_hat: mean cosine over all pairs.
        n_permutations: permutations drawn for ``window_permuted``.
        seed: theirs.
    """

    perplexity: Floats
    half_width: Floats
    content: Floats
    content_permuted: Floats
    window: Floats
    window_permuted: Floats
    window_permuted_standard_error: Floats
    window_permuted_expected: Floats
    _: KW_ONLY
    rho_hat: float
    n_permutations: int
    seed: int


def compare_windows(x: Tensor | np.ndarray, beta: Beta, n_permutations: int = 16, seed: int = 0) -> WindowComparison:
    r"""The mean attended cosine at an equal number of attended tokens, before and after permuting the tokens.

    .. math::
        c = \frac1n \sum_{ij} A_{ij} \langle y_i, y_j \rangle, \qquad
        A_{ij} = \operatorname{softmax}_j(\beta \langle y_i, y_j \rangle) \quad\text{or}\quad
        A_{ij} = \frac{1}{N_i(w)}, \; |i-j| \le w

    N_i(w) is the number of tokens that row i sees, so its e^H. The window has the mean over rows of e^H that content
    attention has: with N(w) = 1 + 2w - w(w+1)/n the mean of N_i(w) at a whole w, the whole w next to a given e^H on
    either side are mixed by rows, c = (1-f) c(w) + f c(w+1) where (1-f) N(w) + f N(w+1) = e^H.

    Content attention does not know positions: permuting the tokens leaves c as it is. The window falls to

    .. math:: E\, c = \hat\rho + (1 - \hat\rho) \frac1n \sum_i \frac{1}{N_i(w)}

    if the tokens are correlated along positions, and stays at it if they are exchangeable. Of all weights with the
    entropy of its row, those of content attention have the largest attended cosine (Gibbs).

    Source: windows as in Longformer and Swin, which "Critical attention scaling" contrasts with content-chosen tokens;
    the comparison is *ours*, the expectation [*derived*](../derivations.md#windows) (token i itself, else any other
    with equal chance).

    Assumes: full attention; a causal row's tokens would change with the permutation.

    Args:
        x: (n, d), tokens in the order of their positions, any unit, float32 or float64; n ≥ 2, d ≥ 1, finite, no
            zero norm.
        beta: inverse temperature or a sequence of them, dimensionless, at least 0.
        n_permutations: permutations, at least 2.
        seed: of the permutations, at least 0.

    Returns:
        A :class:`WindowComparison`.

    Raises:
        InputError: an argument outside its range.

    Cost: content three passes over the pairs a β, n²d each; windows O(nd) a permutation and β, from running sums.
    Memory that of :func:`~attnlim.context.row_focus.focus`.
    Precision: content in the dtype of ``x``, windows in float64.

    >>> x = chain_tokens(400, 32, correlation_length=10.0)
    >>> result = compare_windows(x, beta=20.0)
    >>> bool(abs(result.content - result.content_permuted) < 1e-12)
    True
    >>> bool(result.window > 1.5 * result.window_permuted)
    True
    """
    x = checked_tokens(x)
    betas, single = inverse_temperatures(beta, x.dtype)
    n_permutations, seed = whole_number("n_permutations", n_permutations, 2), whole_number("seed", seed, 0)
    draws = generator(seed, "permutations", len(x))
    orders = [torch.from_numpy(draws.permutation(len(x))).to(x.device) for _ in range(n_permutations)]
    perplexity = focus(x, betas).perplexity.cpu().double().mean(dim=1).numpy()
    content, content_permuted = (np.array([_content(z, value) for value in betas]) for z in (x, x[orders[0]]))

    y = unit_tokens(x).cpu().double()  # not every device has float64
    rho_hat = mean_cosine(y)
    half_width = np.array([_half_width(len(y), value) for value in perplexity])
    window = _windows(y, half_width)
    permuted = np.array([_windows(y[order.cpu()], half_width) for order in orders])
    error = permuted.std(axis=0, ddof=1) / math.sqrt(n_permutations)
    own = np.array([_mixed(width, lambda w: float((1 / _visible(len(y), w)).mean())) for width in half_width])
    expected = rho_hat + (1 - rho_hat) * own
    found = (perplexity, half_width, content, content_permuted, window, permuted.mean(axis=0), error, expected)
    shaped = (values.reshape(() if single else -1) for values in found)
    return WindowComparison(*shaped, rho_hat=rho_hat, n_permutations=n_permutations, seed=seed)


def chain_tokens(n_tokens: int, width: int, correlation_length: float, seed: int = 0) -> Tensor:
    r"""Unit tokens that resemble their neighbours: a stationary Gaussian chain, projected onto the sphere.

    .. math::
        z_{i+1} = \varphi z_i + \sqrt{1-\varphi^2}\, \xi_i, \qquad \varphi = e^{-1/\ell}, \qquad
        z_1, \xi_i \sim N(0, I_d), \qquad y_i = z_i/|z_i|

    With u = φ^k, tokens k apart have the mean cosine

    .. math::
        E\,\langle y_i, y_{i+k} \rangle = \frac{2u}{d} \left(\frac{\Gamma((d+1)/2)}{\Gamma(d/2)}\right)^2
        {}_2F_1\!\left(\tfrac12, \tfrac12; \tfrac d2 + 1; u^2\right),

    which is u up to terms of 1/d.

    Source: *ours*; the mean is that of angles between correlated normal vectors,
    [*derived*](../derivations.md#samplers) and tested on draws.

    Args:
        n_tokens: tokens, at least 2.
        width: dimension d, at least 1.
        correlation_length: ℓ, tokens, above 0.
        seed: at least 0; the first tokens are the same at every n.

    Returns:
        (n_tokens, width) float64, of norm 1.

    Raises:
        InputError: an argument outside its range.

    >>> y = chain_tokens(1000, 64, correlation_length=10.0)
    >>> 0.8 < float((y[1:] * y[:-1]).sum(dim=1).mean()) < 1.0    # e^{-1/10} = 0.905
    True
    """
    n_tokens, width = whole_number("n_tokens", n_tokens, 2), whole_number("width", width, 1)
    length = real_number("correlation_length", correlation_length, above=0.0, advice="it is a number of tokens")
    noise = generator(seed, "tokens", "chain", width).standard_normal((n_tokens, width))
    noise[1:] *= math.sqrt(-math.expm1(-2 / length))
    tokens = signal.lfilter([1.0], [1.0, -math.exp(-1 / length)], noise, axis=0)
    return torch.from_numpy(tokens / np.linalg.norm(tokens, axis=1, keepdims=True))


def _content(x: Tensor, beta: float) -> float:
    """The mean over rows of <m_i, y_i>."""
    with torch.no_grad():
        return float((block(x, None, beta) * unit_tokens(x)).sum(dim=1).mean())


def _visible(n_tokens: int, half_width: int) -> Tensor:
    """N_i(w) of every row."""
    place = torch.arange(n_tokens, dtype=torch.float64)
    return 1 + place.clamp(max=half_width) + place.flip(0).clamp(max=half_width)


def _half_width(n_tokens: int, perplexity: float) -> float:
    """The w, between whole numbers by linear interpolation, at which N(w) is the perplexity."""
    whole = np.arange(n_tokens)
    return float(np.interp(perplexity, 1 + 2 * whole - whole * (whole + 1) / n_tokens, whole))


def _mixed(half_width: float, value: Callable[[int], float]) -> float:
    """A quantity of the window, mixed of those at the whole numbers next to its w."""
    below = math.floor(half_width)
    share = half_width - below
    return (1 - share) * value(below) + (share * value(below + 1) if share else 0.0)


def _windows(y: Tensor, half_widths: Floats) -> Floats:
    """The mean attended cosine of each window on the tokens in their order."""
    n_tokens = len(y)
    sums = torch.cat([torch.zeros_like(y[:1]), y.cumsum(dim=0)])
    place = torch.arange(n_tokens)

    def cosine(half_width: int) -> float:
        inside = sums[(place + half_width + 1).clamp(max=n_tokens)] - sums[(place - half_width).clamp(min=0)]
        return float(((inside * y).sum(dim=1) / _visible(n_tokens, half_width)).mean())

    return np.array([_mixed(half_width, cosine) for half_width in half_widths])
