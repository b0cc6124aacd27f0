"""The notation: one meaning for a symbol within a package, one place that labels axes, columns and docs."""

from __future__ import annotations

from dataclasses import dataclass

from attnlim.core.checks import InputError

PAPER = "Critical attention scaling"
GAPS = "after arXiv 2605.12697"
UNIFORM = "Uniform scaling limits"
YARN = "YaRN"
DERIVED = "derived"
OURS = "ours"


@dataclass(frozen=True)
class Symbol:
    """A quantity: ``symbol`` in text, ``name`` in Python and in columns, ``latex`` in figures."""

    package: str
    symbol: str
    name: str
    meaning: str
    unit: str
    latex: str
    source: str


_TABLE = (
    Symbol("core", "n", "n_tokens", "number of tokens, the context length", "tokens", "n", PAPER),
    Symbol("core", "m", "n_units", "number of independent units behind an interval", "units", "m", OURS),
    Symbol("core", "s", "standard_error", "standard error of an estimate", "that of the estimate", "s", OURS),
    Symbol("context", "n", "n_tokens", "number of tokens, the context length", "tokens", "n", PAPER),
    Symbol("context", "d", "width", "dimension of a token", "dimensionless", "d", PAPER),
    Symbol("context", "q", "q", "squared norm of a token", "dimensionless", "q", PAPER),
    Symbol("context", "α", "alpha", "factor of the residual branch", "dimensionless", r"\alpha", PAPER),
    Symbol("context", "ρ", "rho", "common cosine of the tokens", "dimensionless", r"\rho", PAPER),
    Symbol("context", "ρ̂", "rho_hat", "mean cosine of drawn tokens", "dimensionless", r"\hat\rho", DERIVED),
    Symbol("context", "β", "beta", "inverse temperature, multiplies cosines", "dimensionless", r"\beta", PAPER),
    Symbol("context", "γ", "gamma", "inverse temperature over ln n", "dimensionless", r"\gamma", PAPER),
    Symbol("context", "γ_c", "gamma_c", "critical γ, 1/(1-ρ)", "dimensionless", r"\gamma_c", PAPER),
    Symbol("context", "β_c", "beta_c", "critical inverse temperature", "dimensionless", r"\beta_c", GAPS),
    Symbol("context", "p", "self_weight", "weight of a token on itself", "dimensionless", "p", DERIVED),
    Symbol("context", "t", "window_coordinate", "log-odds of p, (γ(1-ρ)-1) ln n", "nats", "t", DERIVED),
    Symbol("context", "Δγ", "window_width", "width of the transition in γ", "dimensionless", r"\Delta\gamma", DERIVED),
    Symbol("context", "ln Z", "log_partition", "logarithm of the softmax denominator", "nats", r"\ln Z", PAPER),
    Symbol("context", "H", "entropy", "entropy of an attention row", "nats", "H", OURS),
    Symbol("context", "e^H", "perplexity", "tokens attended to, by entropy", "tokens", "e^H", OURS),
    Symbol("context", "1/ΣA²", "participation", "tokens attended to, by Σ A²", "tokens", r"1/\sum A^2", OURS),
    Symbol("context", "κ", "kappa", "focus exponent, d ln(e^H)/d ln n", "dimensionless", r"\kappa", OURS),
    Symbol(
        "context", "b_c", "critical_multiplier", "multiplier that makes a row critical", "dimensionless", "b_c", GAPS
    ),
    Symbol("context", "k_min", "k_min", "smallest rank in the gap count", "ranks", r"k_{\min}", DERIVED),
    Symbol("context", "σ", "sigma", "standard deviation of independent scores", "dimensionless", r"\sigma", GAPS),
    Symbol("context", "r", "norm", "norm of a token", "dimensionless", "r", PAPER),
    Symbol("context", "ρ_1", "rho_1", "smallest cosine of two tokens", "dimensionless", r"\rho_1", PAPER),
    Symbol("context", "ρ_2", "rho_2", "largest cosine of two tokens", "dimensionless", r"\rho_2", PAPER),
    Symbol("context", "q_1", "q_1", "smallest squared norm", "dimensionless", "q_1", PAPER),
    Symbol("context", "q_2", "q_2", "largest squared norm", "dimensionless", "q_2", PAPER),
    Symbol("context", "v", "score_variance", "variance of a row's cosines, mean over rows", "dimensionless", "v", OURS),
    Symbol(
        "context", "λ", "contraction", "mean ratio of 1 - cosine after and before", "dimensionless", r"\lambda", PAPER
    ),
    Symbol(
        "context",
        "λ<1",
        "fraction_contracted",
        "share of pairs that contract",
        "dimensionless",
        r"P(\lambda_{ij}<1)",
        OURS,
    ),
    Symbol("context", "ρ_1'", "min_cosine", "smallest cosine after the layer", "dimensionless", r"\rho_1'", OURS),
    Symbol("context", "max λ", "worst_ratio", "largest ratio of a pair", "dimensionless", r"\max\lambda_{ij}", OURS),
    Symbol("context", "η", "eta", "mean squared singular value of the Jacobian", "dimensionless", r"\eta", PAPER),
    Symbol("context", "η_A", "eta_attention", "part of η with the weights held", "dimensionless", r"\eta_A", DERIVED),
    Symbol("context", "η_C", "eta_covariance", "part of η through the weights", "dimensionless", r"\eta_C", DERIVED),
    Symbol(
        "context", "η_α", "eta_residual", "part of η with α and without β", "dimensionless", r"\eta_\alpha", DERIVED
    ),
    Symbol("context", "Δ", "distance", "energy of J less that of the normalisation", "dimensionless", r"\Delta", PAPER),
    Symbol(
        "context",
        "γ_½",
        "gamma_half",
        "γ at which half the weight is on the token itself",
        "dimensionless",
        r"\gamma_{1/2}",
        DERIVED,
    ),
    Symbol("context", "γ_1", "gamma_1", "γ at which κ falls below 0.8", "dimensionless", r"\gamma_1", OURS),
    Symbol("context", "γ_2", "gamma_2", "γ at which κ falls below 0.2", "dimensionless", r"\gamma_2", OURS),
    Symbol(
        "context",
        "c",
        "stability_line",
        "power of n: n^c layers leave a simplex as it is",
        "dimensionless",
        "c",
        DERIVED,
    ),
    Symbol(
        "context",
        "σ_max",
        "largest",
        "largest singular value of a stack's Jacobian",
        "dimensionless",
        r"\sigma_{\max}",
        DERIVED,
    ),
    Symbol(
        "context", "ΣA²", "concentration", "sum of the squared weights of a row", "dimensionless", r"\sum A^2", OURS
    ),
    Symbol("context", "s", "scale", "factor of a law of inverse temperature", "dimensionless", "s", OURS),
    Symbol("context", "ε", "epsilon", "share of random K^TQ in the bridge", "dimensionless", r"\varepsilon", OURS),
    Symbol("context", "w", "half_width", "half width of a position window", "tokens", "w", OURS),
    Symbol("context", "ℓ", "correlation_length", "correlation length of a token chain", "tokens", r"\ell", OURS),
    Symbol(
        "context",
        "λ̂",
        "contraction_of_means",
        "ratio of mean 1-ρ̂ from layer to layer",
        "dimensionless",
        r"\hat\lambda",
        OURS,
    ),
    Symbol("depth", "L", "n_layers", "number of layers", "layers", "L", UNIFORM),
    Symbol("depth", "H", "n_heads", "number of heads of a layer", "heads", "H", UNIFORM),
    Symbol("depth", "N", "n_tokens", "number of tokens", "tokens", "N", UNIFORM),
    Symbol("depth", "d", "width", "dimension of a token", "dimensionless", "d", UNIFORM),
    Symbol("depth", "k", "head_dim", "dimension of a head", "dimensionless", "k", UNIFORM),
    Symbol("depth", "β", "beta", "inverse temperature", "dimensionless", r"\beta", UNIFORM),
    Symbol("depth", "θ", "theta", "query, key, value and output matrix of a head", "dimensionless", r"\theta", UNIFORM),
    Symbol("depth", "ϑ", "shadows", "the same head, trained in the limit", "dimensionless", r"\vartheta", UNIFORM),
    Symbol("depth", "r", "layer", "place of a layer, from 0", "layers", "r", UNIFORM),
    Symbol("depth", "t", "t", "depth over L, in [0, 1]", "dimensionless", "t", UNIFORM),
    Symbol("depth", "τ", "step", "number of optimiser steps", "steps", r"\tau", UNIFORM),
    Symbol("depth", "x", "tokens", "tokens of a network", "dimensionless", "x", UNIFORM),
    Symbol("depth", "X", "limit_tokens", "tokens of the limit", "dimensionless", "X", UNIFORM),
    Symbol(
        "depth", "a", "adjoint", "derivative of the loss in the measure of tokens", "that of the loss", "a", UNIFORM
    ),
    Symbol("depth", "G", "gradient", "LH times the gradient", "that of the loss", "G", UNIFORM),
    Symbol(
        "depth", "γ", "attended_mean", "mean of tokens by softmax weights", "that of the tokens", r"\gamma", UNIFORM
    ),
    Symbol("depth", "Γ", "drift", "mean output of heads", "that of the tokens", r"\Gamma", UNIFORM),
    Symbol("depth", "π", "law", "law of the parameters before training", "dimensionless", r"\pi", UNIFORM),
    Symbol("depth", "ν", "particles", "law of the parameters, at each depth", "dimensionless", r"\nu", UNIFORM),
    Symbol("depth", "W_p", "wasserstein", "Wasserstein distance of two laws", "that of the points", "W_p", UNIFORM),
    Symbol("depth", "E", "distance", "distance of a network from its limit", "that of the tokens", "E", UNIFORM),
    Symbol("depth", "p", "p", "power of 1/L in E", "dimensionless", "p", OURS),
    Symbol("depth", "q", "q", "power of 1/H in E", "dimensionless", "q", OURS),
    Symbol("depth", "c_1", "c1", "factor of 1/L in E", "that of E", "c_1", OURS),
    Symbol("depth", "c_2", "c2", "factor of L^-p H^-q in E", "that of E", "c_2", OURS),
    Symbol(
        "depth", "M_r", "martingale", "part of the error by chance of the heads", "that of the tokens", "M_r", UNIFORM
    ),
    Symbol("depth", "C", "adam_bound", "largest step of Adam", "dimensionless", "C", UNIFORM),
    Symbol("depth", "M", "hidden", "hidden units of a residual perceptron", "units", "M", "arXiv 2509.10167"),
    Symbol("rules", "n", "keys", "keys that a query may attend to, itself counted in", "tokens", "n", OURS),
    Symbol("rules", "n_0", "trained", "length that a model was trained for", "tokens", "n_0", OURS),
    Symbol("rules", "p", "position", "position of a query, from 0", "tokens", "p", OURS),
    Symbol("rules", "s", "factor", "target over trained length", "dimensionless", "s", YARN),
    Symbol("rules", "m", "cos_sin", "factor on cos and sin, squared on a logit", "dimensionless", "m", YARN),
    Symbol("rules", "Δ", "gap", "logit gap that a rule takes for granted", "nats", r"\Delta", DERIVED),
    Symbol("rules", "b_c", "critical_multiplier", "multiplier that makes a row critical", "dimensionless", "b_c", GAPS),
    Symbol("rules", "ζ", "exponent", "power of ln n that b_c follows", "dimensionless", r"\zeta", OURS),
    Symbol("rules", "w", "slope", "slope of the factor in ln n beyond n_0", "1/nat", "w", OURS),
    Symbol("rules", "g", "by_multiplier", "derivative of the loss by ln of a head's factor", "nats", "g", OURS),
    Symbol("audit", "n", "context", "length of the text window", "tokens", "n", OURS),
    Symbol("audit", "ρ̂", "rho_input", "mean cosine of the attention's input", "dimensionless", r"\hat\rho", OURS),
    Symbol("audit", "ρ̂_r", "rho_residual", "mean cosine of the residual stream", "dimensionless", r"\hat\rho_r", OURS),
    Symbol("audit", "γ_c", "gamma_c", "critical γ at the measured cosine", "dimensionless", r"\gamma_c", PAPER),
    Symbol("audit", "H", "entropy", "mean entropy of a head's rows", "nats", "H", OURS),
    Symbol("audit", "e^H", "perplexity", "tokens attended to, by entropy", "tokens", "e^H", OURS),
    Symbol("audit", "1/ΣA²", "participation", "tokens attended to, by Σ A²", "tokens", r"1/\sum A^2", OURS),
    Symbol("audit", "κ", "kappa", "focus exponent of a head", "dimensionless", r"\kappa", OURS),
    Symbol("audit", "κ_n", "kappa_contexts", "focus exponent over contexts", "dimensionless", r"\kappa_n", OURS),
    Symbol("audit", "b_c", "critical_multiplier", "multiplier that makes a row critical", "dimensionless", "b_c", GAPS),
    Symbol("audit", "ζ", "critical_exponent", "power of ln n that b_c follows", "dimensionless", r"\zeta", OURS),
    Symbol("audit", "A_i1", "sink_mass", "weight on the first token", "dimensionless", "A_{i1}", OURS),
    Symbol("audit", "max A", "largest_weight", "largest weight of a row", "dimensionless", r"\max_j A_{ij}", OURS),
    Symbol(
        "audit", "max z", "largest_logit", "largest logit of a row, after the scale", "nats", r"\max_j z_{ij}", OURS
    ),
    Symbol("audit", "i-j", "distance", "mean distance to the tokens attended to", "tokens", "i-j", OURS),
    Symbol("audit", "g", "sensitivity", "d nll/d ln of a head's logit multiplier", "nats", "g", OURS),
    Symbol("audit", "Σg", "sensitivity_total", "the same for all heads at once", "nats", r"\sum g", OURS),
    Symbol("audit", "nll", "nll", "mean loss of the next token", "nats", r"\mathrm{nll}", OURS),
)

_BY_NAME = {(entry.package, entry.name): entry for entry in _TABLE}


def table(package: str | None = None) -> tuple[Symbol, ...]:
    """Every :class:`Symbol`, or those of one package.

    Raises:
        InputError: a package that has no symbols.

    >>> [entry.symbol for entry in table("core")]
    ['n', 'm', 's']
    """
    found = tuple(entry for entry in _TABLE if package in (None, entry.package))
    if not found:
        raise InputError(f"package must be one of {', '.join(_packages())}, got {package!r}")
    return found


def lookup(package: str, name: str) -> Symbol:
    """The :class:`Symbol` with that Python name in that package.

    Raises:
        InputError: no such entry; the message lists the names that there are.

    >>> lookup("context", "gamma_c").symbol
    'γ_c'
    """
    if (package, name) not in _BY_NAME:
        names = ", ".join(entry.name for entry in table(package))
        raise InputError(f"the quantity of {package!r} must be one of {names}, got {name!r}")
    return _BY_NAME[package, name]


def markdown_table(package: str | None = None) -> str:
    """The notation as a Markdown table, a row for each symbol.

    Raises:
        InputError: a package that has no symbols.

    >>> print(markdown_table("core").splitlines()[2])
    | n | `n_tokens` | number of tokens, the context length | tokens | core | Critical attention scaling |
    """
    head = ["| symbol | in code | meaning | unit | package | source |", "|---|---|---|---|---|---|"]
    rows = [f"| {s.symbol} | `{s.name}` | {s.meaning} | {s.unit} | {s.package} | {s.source} |" for s in table(package)]
    return "\n".join(head + rows)


def _packages() -> list[str]:
    return sorted({entry.package for entry in _TABLE})
