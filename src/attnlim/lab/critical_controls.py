"""What the reproduction measures beside the phase diagram: counterexamples, samplers, score laws, windows, a stack."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from attnlim.context.bridge import bridge_exponents
from attnlim.context.contracting import contraction
from attnlim.context.counterexamples import counterexample_pair, counterexample_smallest
from attnlim.context.identity_layer import layer
from attnlim.context.independent_rows import half_participation_beta
from attnlim.context.near_simplex import assumption_two
from attnlim.context.position_windows import chain_tokens, compare_windows
from attnlim.context.samplers import gaussian_tokens, simplex_tokens
from attnlim.context.simplex_layers import simplex_cascade
from attnlim.context.simulated_cascade import cascade
from attnlim.core.cells import Arrays
from attnlim.lab.critical_series import token_seed

EXAMPLES = {"pair": counterexample_pair, "smallest": counterexample_smallest}
CHAIN_LENGTH = 20.0
CHAIN_PERMUTATIONS = 8


def measure_example(example: str, n_tokens: int) -> Arrays:
    """What one layer does to a counterexample of Theorem 2.3, by the kernels and not by its closed form.

    Args:
        example: "pair" or "smallest".
        n_tokens: tokens, even, at least 6.

    Returns:
        float64 (): before and after, the cosine of the pair to watch; closed_form, the latter by formula; smallest_before
        and smallest_after, over all pairs; ratio, the largest (1 - cosine after)/(1 - cosine before); rho_1; gamma and
        gamma_low = 1/(1-ρ_1).
    """
    case = EXAMPLES[example](n_tokens)
    tokens, beta = case.tokens(), case.gamma * math.log(n_tokens)
    first, second = layer(tokens, beta)[list(case.pair)]
    every = contraction(tokens, beta)
    found = {
        "before": case.before,
        "after": float(torch.nn.functional.cosine_similarity(first, second, dim=0)),
        "closed_form": case.after,
        "smallest_before": every.min_cosine_before,
        "smallest_after": every.min_cosine,
        "ratio": every.worst_ratio,
        "rho_1": case.rho_1,
        "gamma": case.gamma,
        "gamma_low": case.gamma_low,
    }
    return {name: np.array(value, dtype=np.float64) for name, value in found.items()}


def measure_bounds(tokens: str, width: int, rho: float, n_tokens: Sequence[int], draw: int, seed: int) -> Arrays:
    """The bounds of Assumption 2 of a sampler over n.

    Args:
        tokens: "gaussian" or "half-sphere".
        width: dimension d.
        rho: nominal cosine of Gaussian tokens.
        n_tokens: (k,), ascending.
        draw: which token set, from 0.
        seed: at least 0.

    Returns:
        float64 (k,): rho_1, one_minus_rho_2, q_1, q_2, and holds, 1 or 0.
    """
    stream = token_seed(seed, "bounds", tokens, width, draw)
    table = assumption_two(tokens, n_tokens, [width], rho if tokens == "gaussian" else None, seeds=[stream])
    names = ("rho_1", "one_minus_rho_2", "q_1", "q_2", "holds")
    return {name: table[name].to_numpy().astype(np.float64) for name in names}


def measure_scores(width: int, rho: float, n_tokens: Sequence[int], draws: int, rows: int, seed: int) -> Arrays:
    """The power of ln n that the gap count follows at both ends of the bridge, ε = 0 and 1.

    Args:
        width: dimension d.
        rho: nominal cosine.
        n_tokens: (k,), keys.
        draws: token sets.
        rows: rows of each.
        seed: at least 0.

    Returns:
        float64 (2,): exponent, low and high.
    """
    found = bridge_exponents([0.0, 1.0], n_tokens, width, rho, draws, rows, token_seed(seed, "scores"))
    return {"exponent": found.exponent, "low": found.exponent_low, "high": found.exponent_high}


def measure_independent(log10_n: int) -> Arrays:
    """β at which independent normal scores of variance 1 have Σ A² = 1/2 on average, exact at every n.

    Args:
        log10_n: decimal logarithm of n, a whole number up to 300.

    Returns:
        float64 (): beta.
    """
    return {"beta": np.array(half_participation_beta(10**log10_n, 1.0))}


def measure_windows(
    tokens: str, n_tokens: int, width: int, rho: float, beta: Sequence[float], draw: int, seed: int
) -> Arrays:
    """Mean attended cosines of content attention and of a window of positions that holds as many tokens.

    Args:
        tokens: "chain", where neighbours in position are alike, or "gaussian", where positions mean nothing.
        n_tokens: tokens.
        width: dimension d.
        rho: nominal cosine of Gaussian tokens.
        beta: (m,), inverse temperatures.
        draw: which token set, from 0.
        seed: at least 0.

    Returns:
        float64 (m,): perplexity, content, content_permuted, window, window_permuted, window_permuted_expected.
    """
    stream = token_seed(seed, "windows", tokens, draw)
    if tokens == "chain":
        x = chain_tokens(n_tokens, width, CHAIN_LENGTH, seed=stream)
    else:
        x = gaussian_tokens(n_tokens, width, rho, seed=stream)
    found = compare_windows(x, list(beta), CHAIN_PERMUTATIONS, seed)
    names = ("perplexity", "content", "content_permuted", "window", "window_permuted", "window_permuted_expected")
    return {name: getattr(found, name) for name in names}


def measure_layers(n_tokens: int, n_layers: int, rho: float, gamma: float) -> Arrays:
    """A simplex through many layers: simulated tokens, and the exact recursion.

    Args:
        n_tokens: tokens.
        n_layers: layers.
        rho: cosine at the start.
        gamma: β/ln n of every layer.

    Returns:
        float64 (n_layers+1,): simulated and recursion, 1-ρ after each layer.
    """
    simulated = cascade(simplex_tokens(n_tokens, rho), n_layers, gamma=gamma).one_minus_rho_hat
    return {
        "simulated": simulated,
        "recursion": np.asarray(simplex_cascade(n_tokens, n_layers, rho, gamma).one_minus_rho),
    }
