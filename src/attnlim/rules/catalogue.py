"""Published scaling rules by name, each as a :class:`~attnlim.rules.rule.Rule`: constants in, factors and their sources out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnlim.core.checks import InputError, real_number, whole_number
from attnlim.rules import factors
from attnlim.rules.rule import Factor, Kind, Rule

YARN = "YaRN, arXiv 2309.00071, equation 22; factor on cos and sin as in its code"
DEEPSEEK = "DeepSeek-V2, arXiv 2405.04434, code of the models"
LONGROPE = "LongRoPE, arXiv 2402.13753, section 3.3"
PHI_MOE = "code of Phi-3.5-MoE"
QWEN = "code of Qwen-1, use_logn_attn; after kexue.fm 8823"
GROK = "configuration of Grok-2, attn_temperature_len, as SGLang applies it"
LLAMA_4 = "code of Llama 4, after Scalable-Softmax, arXiv 2501.19399"
MINISTRAL = "code of Ministral 3 and Mistral 4, llama_4_scaling_beta"
SSMAX = "Scalable-Softmax, arXiv 2501.19399"
SWAN = "SWAN-GPT, arXiv 2504.08719; its constants are not verified, so they are arguments without a default"
SU = "Su Jianlin, kexue.fm 8823 and 9034"
OURS = "attnlim"


def none() -> Rule:
    """No scaling: the factor is 1."""
    return Rule("none")


def constant(value: Any) -> Rule:
    """One factor on every logit.

    Args:
        value: dimensionless, at least 0; a number, one a head (n_heads,), or one a layer and head (n_layers, n_heads).

    Raises:
        InputError: a factor that is negative or not finite.

    >>> constant(1.2).parts(0).query
    1.2
    """
    chosen = _numbers("value", value, least=0.0)
    parameters = {"value": chosen}
    formula = f"{chosen:g}" if isinstance(chosen, float) else "one number a head"
    return Rule(
        "constant", (Factor("constant", "query", factors.constant, parameters, formula, OURS, by_position=False),)
    )


def yarn(
    factor: float,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    attention_factor: float | None = None,
) -> Rule:
    """YaRN's temperature: a constant on cos and sin, so its square on the logits of rotary dimensions.

    Args:
        factor: s, target over trained length, at least 1.
        mscale: dimensionless, at least 0; does nothing without the next.
        mscale_all_dim: the same.
        attention_factor: overrides both, at least 0.

    Raises:
        InputError: an argument outside its range.

    >>> round(yarn(4.0).parts(0).cos_sin, 5)
    1.13863
    """
    s = real_number("factor", factor, above=1.0, closed=True)
    k1, k2, given = (
        _optional(name, value)
        for name, value in (
            ("mscale", mscale),
            ("mscale_all_dim", mscale_all_dim),
            ("attention_factor", attention_factor),
        )
    )
    if given is not None:
        formula = f"attention_factor {given:g}"
    elif k1 and k2:
        formula = f"(1 + 0.1·{k1:g} ln {s:g})/(1 + 0.1·{k2:g} ln {s:g})"
    else:
        formula = f"1 + 0.1 ln {s:g}"
    value = factors.yarn_attention_factor(s, k1, k2, given)
    return Rule("yarn", (_cos_sin("yarn", value, formula, YARN, _yarn_gap(s, k1, k2, given)),))


def latent_yarn(factor: float, mscale: float | None, mscale_all_dim: float | None) -> Rule:
    """YaRN as multi-head latent attention has it: the ratio on cos and sin, and g(s, mscale_all_dim)² on the softmax scale.

    Args:
        factor: s, at least 1.
        mscale: dimensionless, at least 0.
        mscale_all_dim: the same; without it the softmax scale stays as it is.

    Raises:
        InputError: an argument outside its range.

    >>> deepseek_v3 = latent_yarn(40.0, 1.0, 1.0).parts(0)
    >>> deepseek_v3.cos_sin, round(deepseek_v3.softmax, 4)
    (1.0, 1.8739)
    """
    rule = yarn(factor, mscale, mscale_all_dim)
    return Rule("latent yarn", (*rule.factors, *latent_softmax(factor, mscale_all_dim).factors))


def latent_softmax(factor: float, mscale_all_dim: float | None) -> Rule:
    """The part of :func:`latent_yarn` on the softmax scale; no factor without ``mscale_all_dim``."""
    s, k = real_number("factor", factor, above=1.0, closed=True), _optional("mscale_all_dim", mscale_all_dim)
    if not k:
        return none()
    value = factors.latent_softmax_factor(s, k)
    gap = 1 / (0.2 * k * factors.yarn_scale(s, k))
    parameters = {"value": value}
    formula = f"(1 + 0.1·{k:g} ln {s:g})²"
    one = Factor(
        "latent yarn", "softmax", factors.constant, parameters, formula, DEEPSEEK, lambda n, **constants: gap, False
    )
    return Rule("latent softmax", (one,))


def longrope(factor: float, trained: int, attention_factor: float | None = None) -> Rule:
    """LongRoPE's temperature: ln(s n_0)/ln n_0 on the logits of rotary dimensions.

    Args:
        factor: s, target over trained length, above 0; 1 and below give 1.
        trained: n_0, tokens, at least 2.
        attention_factor: overrides it, at least 0.

    Raises:
        InputError: an argument outside its range.

    >>> round(longrope(32.0, 4096).parts(0).logit.rotary, 5)
    1.41667
    """
    s, n0 = real_number("factor", factor, above=0.0), whole_number("trained", trained, 2)
    given = _optional("attention_factor", attention_factor)
    value = factors.longrope_attention_factor(s, n0, given)
    formula = f"√(1 + ln {s:g}/ln {n0})" if given is None else f"attention_factor {given:g}"
    gap = math.inf if given is not None or s <= 1 else math.log(n0)
    return Rule("longrope", (_cos_sin("longrope", value, formula, LONGROPE, gap),))


def mscale_by_length(short: float, long: float, trained: int) -> Rule:
    """Phi-3.5-MoE's factor on cos and sin: one for sequences up to n_0, another for longer ones.

    Args:
        short: ``short_mscale``, at least 0.
        long: ``long_mscale``, at least 0.
        trained: n_0, tokens, at least 2.

    Raises:
        InputError: an argument outside its range.

    >>> mscale_by_length(1.0, 1.25, 4096).parts([4095, 4096]).cos_sin.tolist()
    [1.0, 1.25]
    """
    parameters: dict[str, Any] = {
        "short": real_number("short", short, above=0.0, closed=True),
        "long": real_number("long", long, above=0.0, closed=True),
        "trained": whole_number("trained", trained, 2),
    }
    formula = f"{short:g} up to {trained} tokens, else {long:g}"
    return Rule("longrope", (Factor("longrope", "cos_sin", factors.by_length, parameters, formula, PHI_MOE),))


def logn(trained: int) -> Rule:
    """Qwen-1's rule: ln(p + 1)/ln n_0 beyond n_0, on all layers.

    >>> round(logn(2048).parts(8191).query, 6)
    1.181818
    """
    n0 = whole_number("trained", trained, 2)
    return _query("logn", factors.logn, {"trained": n0}, f"max(1, ln(p+1)/ln {n0})", QWEN, _log_gap)


def grok(temperature_len: int) -> Rule:
    """Grok-2's rule: log2 p/log2 T above T.

    >>> grok(1024).parts(2048).query
    1.1
    """
    n0 = whole_number("temperature_len", temperature_len, 2)
    formula = f"log2 p/log2 {n0} above {n0}"
    return _query("grok", factors.log_position, {"trained": n0}, formula, GROK, _log_gap)


def llama4(floor_scale: int = 8192, attn_scale: float = 0.1) -> Rule:
    """Llama 4's rule: steps every ``floor_scale`` tokens, on the layers without rotary positions.

    >>> llama4().parts(8190).query, round(llama4().parts(8191).query, 4)
    (1.0, 1.0693)
    """
    n0, c = whole_number("floor_scale", floor_scale, 1), real_number("attn_scale", attn_scale)
    formula = f"1 + {c:g} ln(1 + ⌊(p+1)/{n0}⌋)"
    parameters = {"trained": n0, "slope": c}
    return _query("llama4", factors.log_steps_next, parameters, formula, LLAMA_4, _steps_gap, kind="nope")


def ministral(trained: int, beta: float = 0.1) -> Rule:
    """The rule of Ministral 3 and Mistral 4: steps every n_0 tokens, on all layers.

    >>> ministral(16384).parts(16383).query, round(ministral(16384).parts(131071).query, 4)
    (1.0, 1.2079)
    """
    n0, c = whole_number("trained", trained, 1), real_number("beta", beta)
    formula = f"1 + {c:g} ln(1 + ⌊p/{n0}⌋)"
    return _query("ministral", factors.log_steps, {"trained": n0, "slope": c}, formula, MINISTRAL, _steps_gap)


def ssmax(scale: Any = 0.43, bias: Any = 0.0) -> Rule:
    """Scalable softmax: s_h ln n + b_h, learned by every query head.

    Args:
        scale: s, dimensionless: a number, (n_heads,) or (n_layers, n_heads); training begins at 0.43.
        bias: b, the same; 0 in the plain variant.

    >>> round(ssmax().parts(1023).query, 4)
    2.9805
    """
    parameters = {"scale": _numbers("scale", scale), "bias": _numbers("bias", bias)}
    formula = f"{_told(parameters['scale'], 's')} ln n" + (
        "" if np.all(np.equal(bias, 0)) else f" + {_told(parameters['bias'], 'b')}"
    )
    return _query(
        "ssmax",
        factors.scalable_softmax,
        parameters,
        formula,
        SSMAX,
        _scale_gap,
        ("scale", "bias"),
    )


def swan(scale: float, bias: float) -> Rule:
    """SWAN-GPT's rule at inference: a factor that grows like ln n, on the global layers without rotary positions.

    Its constants are not verified by us: both have to be given.

    >>> round(swan(0.1, 0.2).parts(1023).query, 4)
    0.8931
    """
    parameters = {"scale": real_number("scale", scale), "bias": real_number("bias", bias)}
    formula = f"{parameters['scale']:g} ln n + {parameters['bias']:g}"
    gap = _scale_gap
    return _query("swan", factors.scalable_softmax, parameters, formula, SWAN, gap, kind="nope")


def su(trained: int) -> Rule:
    """Su's rule: ln n/ln n_0, below n_0 too.

    >>> round(su(512).parts(1023).query, 4)
    1.1111
    """
    n0 = whole_number("trained", trained, 2)
    return _query("su", factors.log_ratio, {"trained": n0}, f"ln n/ln {n0}", SU, _log_gap)


def frozen_log(trained: int, target: int) -> Rule:
    """LongRoPE's constant, but on the whole logit: ln n/ln n_0 at one target n for every position.

    >>> round(frozen_log(8192, 16384).parts(0).query, 6)
    1.076923
    """
    n0 = whole_number("trained", trained, 2)
    n = whole_number("target", target, n0, "a target lies beyond the trained length")
    parameters = {"value": math.log(n) / math.log(n0)}
    gap = math.log(n0)
    one = Factor(
        "frozen log",
        "query",
        factors.constant,
        parameters,
        f"ln {n}/ln {n0}",
        f"after {LONGROPE}",
        lambda n, **constants: gap,
        False,
    )
    return Rule("frozen log", (one,))


def critical(trained: int, exponent: Any) -> Rule:
    """The critical rule: every head stays as far from criticality as it was at n_0.

    Args:
        trained: n_0, tokens, at least 2.
        exponent: ζ, the power of ln n that b_c follows: a number, (n_heads,) or (n_layers, n_heads).

    >>> critical(64, [0.0, 1.0]).parts(4095).query.tolist()
    [1.0, 2.0]
    """
    n0, zeta = whole_number("trained", trained, 2), _numbers("exponent", exponent)
    parameters = {"trained": n0, "exponent": zeta}
    formula = f"(ln n/ln {n0})^{_told(zeta, 'ζ')} beyond {n0}"
    return _query("critical", factors.log_power, parameters, formula, OURS, _power_gap, ("exponent",))


def log_slope(trained: int, slope: Any) -> Rule:
    """A slope in ln n beyond n_0: what a calibration fits.

    Args:
        trained: n_0, tokens, at least 2.
        slope: w, per nat: a number, (n_heads,) or (n_layers, n_heads).

    >>> round(log_slope(4096, 0.2).parts(8191).query, 5)
    1.13863
    """
    n0, w = whole_number("trained", trained, 2), _numbers("slope", slope)
    formula = f"1 + {_told(w, 'w')} ln(n/{n0}) beyond {n0}"
    return _query("log slope", factors.log_slope, {"trained": n0, "slope": w}, formula, OURS, _slope_gap, ("slope",))


def _cos_sin(name: str, value: float, formula: str, source: str, gap: float) -> Factor:
    return Factor(
        name, "cos_sin", factors.constant, {"value": value}, formula, source, lambda n, **constants: gap, False
    )


def _query(
    name: str,
    value: Any,
    parameters: dict[str, Any],
    formula: str,
    source: str,
    gap: Any,
    learned: tuple[str, ...] = (),
    kind: Kind = "all",
) -> Rule:
    return Rule(name, (Factor(name, "query", value, parameters, formula, source, gap, True, learned, kind),))


def _yarn_gap(s: float, k1: float | None, k2: float | None, given: float | None) -> float:
    """1/(d m²/d ln s)."""
    if given is not None or s <= 1:
        return math.inf
    if not (k1 and k2):
        return 1 / (0.2 * factors.yarn_scale(s))
    top, bottom = factors.yarn_scale(s, k1), factors.yarn_scale(s, k2)
    growth = 2 * top / bottom * 0.1 * (k1 * bottom - k2 * top) / bottom**2
    return 1 / growth if growth else math.inf


def _log_gap(n: int, *, trained: int) -> float:
    return math.log(trained)


def _steps_gap(n: int, *, trained: int, slope: float) -> float:
    """Of the smooth curve 1 + c ln(1 + n/n0)."""
    return (1 + trained / n) / slope if slope else math.inf


def _power_gap(n: int, *, trained: int, exponent: float) -> float:
    ratio = math.log(n) / math.log(trained)
    growth = exponent * ratio ** (exponent - 1) / math.log(trained) if n > trained else 0.0
    return 1 / growth if growth else math.inf


def _scale_gap(n: int, *, scale: float, bias: float) -> float:
    return 1 / scale if scale else math.inf


def _slope_gap(n: int, *, trained: int, slope: float) -> float:
    return 1 / slope if slope and n > trained else math.inf


def _told(value: Any, letter: str) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{letter}_h"


def _optional(name: str, value: float | None) -> float | None:
    return None if value is None else real_number(name, value, above=0.0, closed=True)


def _numbers(name: str, value: Any, least: float = -math.inf) -> Any:
    """A float, or float64 (n_heads,) or (n_layers, n_heads)."""
    if np.ndim(value) == 0:
        return real_number(name, value, above=least, closed=True)
    array = np.asarray(value, dtype=np.float64)
    if array.ndim > 2 or not bool(np.isfinite(array).all()) or not bool((array >= least).all()):
        raise InputError(
            f"{name} must be finite numbers{f' of at least {least:g}' if least > -math.inf else ''}, one, (n_heads,) or "
            f"(n_layers, n_heads), got shape {array.shape}"
        )
    return array
