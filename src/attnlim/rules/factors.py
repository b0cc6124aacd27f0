r"""The factors of published scaling rules on a logit q·k/√d, each a pure function of position, visible keys and constants.

``position`` counts from 0; ``keys`` is how many keys a query may attend to, itself counted in. Both may be numbers, NumPy
arrays or torch tensors, and what comes back is of that kind: the same lines serve a table and a running model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Numbers = Any
"""A float, a NumPy array or a torch tensor."""


def yarn_scale(factor: float, mscale: float = 1.0) -> float:
    r"""g(s, k), from which YaRN and its variants are made.

    .. math:: g(s, k) = 0.1\,k \ln s + 1 \;\text{ for } s > 1, \qquad \text{else } 1

    Source: YaRN (arXiv 2309.00071), equation 22, where k = 1; k is DeepSeek's.

    Args:
        factor: s, target over trained length, dimensionless.
        mscale: k, dimensionless.

    Returns:
        Dimensionless.

    >>> round(yarn_scale(4.0), 5), round(yarn_scale(40.0), 5), yarn_scale(0.5)
    (1.13863, 1.36889, 1.0)
    """
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def yarn_attention_factor(
    factor: float,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    attention_factor: float | None = None,
) -> float:
    r"""YaRN's factor on cos and sin; rotary logits get its square.

    .. math:: m = \text{attention\_factor}, \quad\text{else}\quad \frac{g(s, k_1)}{g(s, k_2)}, \quad\text{else}\quad g(s, 1)

    The ratio needs both k_1 = ``mscale`` and k_2 = ``mscale_all_dim`` to be given and not 0; one alone does nothing.

    Source: YaRN (arXiv 2309.00071), equation 22, as shipped in its code and in transformers. The paper's text gives
    √(1/t) = 0.1 ln s + 1 as the factor on the queries *and* on the keys, so a logit gets (0.1 ln s + 1)², which grows as
    (ln s)² only where 0.1 ln s ≫ 1, that is s ≫ e^10: over lengths in use it is close to 1 + 0.2 ln s.

    Args:
        factor: s, dimensionless.
        mscale: k_1, dimensionless, None where not given.
        mscale_all_dim: k_2, the same.
        attention_factor: m itself, which overrides the rest; it is no multiplier of it.

    Returns:
        Dimensionless.

    >>> round(yarn_attention_factor(16.0), 5), yarn_attention_factor(40.0, 1.0, 1.0), yarn_attention_factor(4.0, attention_factor=1.0)
    (1.27726, 1.0, 1.0)
    """
    if attention_factor is not None:
        return float(attention_factor)
    if mscale and mscale_all_dim:
        return yarn_scale(factor, mscale) / yarn_scale(factor, mscale_all_dim)
    return yarn_scale(factor)


def latent_softmax_factor(factor: float, mscale_all_dim: float) -> float:
    r"""What multi-head latent attention puts on the softmax scale when it is stretched by YaRN.

    .. math:: g(s, k)^2

    Source: DeepSeek-V2 (arXiv 2405.04434), code of the models; transformers' ``yarn_apply_mscale``.

    Args:
        factor: s, dimensionless.
        mscale_all_dim: k, dimensionless; 0 is none.

    Returns:
        Dimensionless.

    >>> round(latent_softmax_factor(40.0, 1.0), 4), round(latent_softmax_factor(40.0, 0.707), 4)
    (1.8739, 1.5896)
    """
    return yarn_scale(factor, mscale_all_dim) ** 2 if mscale_all_dim else 1.0


def longrope_attention_factor(factor: float, trained: int, attention_factor: float | None = None) -> float:
    r"""LongRoPE's factor on cos and sin; rotary logits get ln(s n_0)/ln n_0.

    .. math:: \sqrt{1 + \ln s/\ln n_0} \;\text{ for } s > 1, \qquad \text{else } 1

    Source: LongRoPE (arXiv 2402.13753), section 3.3, as in the code of Phi-3 and in transformers.

    Args:
        factor: s, target over trained length, dimensionless.
        trained: n_0, tokens, at least 2.
        attention_factor: overrides it.

    Returns:
        Dimensionless.

    >>> round(longrope_attention_factor(32.0, 4096), 5), round(longrope_attention_factor(32.0, 4096) ** 2, 5)
    (1.19024, 1.41667)
    """
    if attention_factor is not None:
        return float(attention_factor)
    return math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 else 1.0


def constant(position: Numbers, keys: Numbers, *, value: Numbers) -> Numbers:
    """The same factor everywhere.

    >>> constant(7, 8, value=1.25)
    1.25
    """
    return value + 0 * position


def by_length(position: Numbers, keys: Numbers, *, short: float, long: float, trained: int) -> Numbers:
    """One factor while no position of the sequence reaches n_0, another for all of it afterwards.

    The value is that of a sequence which ends at ``position``; a longer one has ``long`` at every position.

    Source: the code of Phi-3.5-MoE, ``short_mscale`` and ``long_mscale``.

    >>> by_length(4095, 4096, short=1.0, long=1.25, trained=4096), by_length(4096, 4097, short=1.0, long=1.25, trained=4096)
    (1.0, 1.25)
    """
    return short + (long - short) * (position >= trained)


def logn(position: Numbers, keys: Numbers, *, trained: int) -> Numbers:
    r"""Qwen's first rule.

    .. math:: \max(1, \ln(p+1)/\ln n_0)

    Source: the code of Qwen-1, ``use_logn_attn``; after Su Jianlin, kexue.fm 8823.

    >>> float(logn(2047, 2048, trained=2048)), round(float(logn(8191, 8192, trained=2048)), 6)
    (1.0, 1.181818)
    """
    return 1 + _log_beyond(position + 1, trained) / math.log(trained)


def log_position(position: Numbers, keys: Numbers, *, trained: int) -> Numbers:
    r"""Grok-2's rule: as :func:`logn` with p in place of p + 1.

    .. math:: \log_2 p/\log_2 T \;\text{ for } p > T, \qquad \text{else } 1

    Source: the configuration of Grok-2, ``attn_temperature_len`` = T, as SGLang applies it.

    >>> float(log_position(1024, 1025, trained=1024)), float(log_position(2048, 2049, trained=1024))
    (1.0, 1.1)
    """
    return 1 + _log_beyond(position, trained) / math.log(trained)


def log_steps_next(position: Numbers, keys: Numbers, *, trained: int, slope: float) -> Numbers:
    r"""Llama 4's rule: steps every n_0 tokens, the first one token early.

    .. math:: 1 + c \ln\big(1 + \lfloor (p+1)/n_0 \rfloor\big)

    Source: the code of Llama 4, ``floor_scale`` = n_0 = 8192 and ``attn_scale`` = c = 0.1, after arXiv 2501.19399.

    >>> float(log_steps_next(8190, 8191, trained=8192, slope=0.1)), round(float(log_steps_next(8191, 8192, trained=8192, slope=0.1)), 4)
    (1.0, 1.0693)
    """
    return 1 + slope * _log(1 + (position + 1) // trained)


def log_steps(position: Numbers, keys: Numbers, *, trained: int, slope: float) -> Numbers:
    r"""The rule of Ministral 3 and Mistral 4: steps every n_0 tokens.

    .. math:: 1 + c \ln\big(1 + \lfloor p/n_0 \rfloor\big)

    Source: their code, ``llama_4_scaling_beta`` = c = 0.1.

    >>> float(log_steps(16383, 16384, trained=16384, slope=0.1)), round(float(log_steps(16384, 16385, trained=16384, slope=0.1)), 4)
    (1.0, 1.0693)
    """
    return 1 + slope * _log(1 + position // trained)


def scalable_softmax(position: Numbers, keys: Numbers, *, scale: Numbers, bias: Numbers = 0.0) -> Numbers:
    r"""SSMax, with the bias of its variant.

    .. math:: s_h \ln n + b_h, \qquad n = \text{visible keys}

    Source: Scalable-Softmax (arXiv 2501.19399); s_h is learned by every query head and begins at 0.43. At n = 1 the factor
    is b_h, which does no harm: one key takes all the weight whatever its logit.

    >>> round(float(scalable_softmax(1023, 1024, scale=0.43)), 4), float(scalable_softmax(0, 1, scale=0.43))
    (2.9805, 0.0)
    """
    return scale * _log(keys) + bias


def log_ratio(position: Numbers, keys: Numbers, *, trained: int) -> Numbers:
    r"""Su's rule, below n_0 too.

    .. math:: \ln n/\ln n_0, \qquad n = \text{visible keys}

    Source: Su Jianlin, kexue.fm 8823 and 9034.

    >>> float(log_ratio(0, 1, trained=512)), round(float(log_ratio(1023, 1024, trained=512)), 4)
    (0.0, 1.1111)
    """
    return _log(keys) / math.log(trained)


def log_power(position: Numbers, keys: Numbers, *, trained: int, exponent: Numbers) -> Numbers:
    r"""The critical rule, where b_c of a head follows a power of ln n.

    .. math:: b_h(n) = \frac{b_{c,h}(n)}{b_{c,h}(n_0)} = \Big(\frac{\ln n}{\ln n_0}\Big)^{\zeta_h} \;\text{ for } n > n_0, \qquad \text{else } 1

    ζ = 1 is Qwen's rule, ζ = 1/2 its square root, ζ = 0 none: a head stays as far from criticality as it was in training.

    Source: [*derived*](../rules-derivations.md#critical-rule).

    >>> round(float(log_power(4095, 4096, trained=64, exponent=0.5) ** 2), 9), float(log_power(9, 10, trained=64, exponent=0.5))
    (2.0, 1.0)
    """
    return (1 + _log_beyond(keys, trained) / math.log(trained)) ** exponent


def log_slope(position: Numbers, keys: Numbers, *, trained: int, slope: Numbers) -> Numbers:
    r"""A factor that grows by a slope in ln n beyond n_0: what a calibration fits.

    .. math:: 1 + w_h \ln(n/n_0) \;\text{ for } n > n_0, \qquad \text{else } 1

    Source: *ours*; w = 1/ln n_0 is Qwen's rule, w = 0.2 is YaRN's to first order.

    >>> round(float(log_slope(8191, 8192, trained=4096, slope=0.2)), 5), float(log_slope(9, 10, trained=4096, slope=0.2))
    (1.13863, 1.0)
    """
    return 1 + slope * _log_beyond(keys, trained)


def _log(x: Numbers) -> Numbers:
    return x.log() if hasattr(x, "log") else np.log(x)


def _log_beyond(n: Numbers, trained: int) -> Numbers:
    """ln(n/n_0) beyond n_0, else exactly 0, so that a rule's 1 is a 1 in every precision."""
    return _log((n.clip(min=trained) if hasattr(n, "clip") else max(n, trained)) / trained)
