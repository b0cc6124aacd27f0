"""A scaling rule: factors on cos/sin, on the softmax scale and on the query, and the layers and heads that each acts on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from attnlim.core.checks import InputError, whole_number
from attnlim.rules.factors import Numbers

Place = Literal["cos_sin", "softmax", "query"]
Kind = Literal["all", "nope", "global", "local"]
KIND_WORDS: dict[Kind, str] = {
    "all": "all layers",
    "nope": "layers without rotary positions",
    "global": "layers without a window",
    "local": "layers with a window",
}


class Logit(NamedTuple):
    """The factor on the logit from the rotary dimensions of a head and from its other dimensions, dimensionless."""

    rotary: Numbers
    other: Numbers


@dataclass(frozen=True)
class Parts:
    """The three factors of a rule that software keeps apart, dimensionless, each with the shape of what was asked.

    Attributes:
        cos_sin: on cos and sin of the rotary embedding: on query and key, so squared on a logit.
        softmax: on the softmax scale: on the whole logit.
        query: on the query, by position: on the whole logit.
    """

    cos_sin: Numbers
    softmax: Numbers
    query: Numbers

    @property
    def logit(self) -> Logit:
        """What a logit is multiplied by: cos_sin² · softmax · query, and without cos_sin² on dimensions that do not turn."""
        other = self.softmax * self.query
        return Logit(self.cos_sin**2 * other, other)


@dataclass(frozen=True)
class Factor:
    """One factor of a rule.

    Attributes:
        name: the rule that it comes from, such as "yarn".
        place: what it multiplies.
        value: one of :mod:`attnlim.rules.factors`, called with position, keys and the parameters.
        parameters: its constants: numbers, or one a head (n_heads,), or one a layer and head (n_layers, n_heads).
        formula: the factor in words and numbers, for a table.
        source: where it is from.
        gap: from n and the parameters to Δ = d ln n/d factor in nats, the logit gap that it takes for granted; None for a factor
            that says nothing of how it should change with n.
        by_position: whether it differs between positions.
        learned: the parameters that training may change.
        kind: which layers it acts on, in kind.
        layers: their numbers, None before a model is known or for all of them.
    """

    name: str
    place: Place
    value: Callable[..., Numbers] = field(repr=False)
    parameters: Mapping[str, Any]
    formula: str
    source: str
    gap: Callable[..., float] | None = field(default=None, repr=False)
    by_position: bool = True
    learned: tuple[str, ...] = ()
    kind: Kind = "all"
    layers: tuple[int, ...] | None = None

    def acts_on(self, layer: int | None) -> bool:
        """Whether it acts on a layer; without one it is a layer that it acts on."""
        return layer is None or self.layers is None or layer in self.layers

    @property
    def per_head(self) -> bool:
        """Whether heads differ."""
        return any(np.ndim(value) for value in self.parameters.values())

    def at(self, position: Numbers, keys: Numbers, layer: int | None = None, head: int | None = None) -> Numbers:
        """Its value; with heads that differ and no ``head`` given, heads come first.

        Raises:
            InputError: layers differ and none is given, or no such layer or head.
        """
        return self.value(position, keys, **dict(self._chosen(np.ndim(position), layer, head)))

    def growth(self, n_tokens: int, layer: int | None, head: int | None) -> float:
        """d ln(its part of the logit)/d ln n at the last position of a context, dimensionless; 0 where it says nothing of n."""
        if self.gap is None:
            return 0.0
        value = float(self.at(np.asarray(n_tokens - 1), np.asarray(n_tokens), layer, head))
        on_logit = value**2 if self.place == "cos_sin" else value
        return 1 / (self.gap(n_tokens, **dict(self._chosen(0, layer, head))) * on_logit)

    def _chosen(self, n_axes: int, layer: int | None, head: int | None) -> Iterator[tuple[str, Any]]:
        for name, given in self.parameters.items():
            chosen = given
            if np.ndim(chosen) == 2:
                if layer is None:
                    raise InputError(f"{self.name}: {name} differs between layers; say which with layer=")
                chosen = _entry(chosen, layer, f"{self.name} has {len(chosen)} layers, no layer")
            if np.ndim(chosen) == 1:
                if head is not None:
                    chosen = float(_entry(chosen, head, f"{self.name} has {len(chosen)} heads, no head"))
                else:
                    chosen = np.asarray(chosen).reshape(-1, *[1] * n_axes)
            yield name, chosen


def _entry(values: Any, index: int, complaint: str) -> Any:
    if not 0 <= index < len(values):
        raise InputError(f"{complaint} {index}; they are counted from 0")
    return values[index]


@dataclass(frozen=True)
class Rule:
    """A scaling rule: the product of its factors.

    Attributes:
        name: what it is called.
        factors: in the order in which they are told.
    """

    name: str
    factors: tuple[Factor, ...] = ()

    def parts(self, position: Any, keys: Any = None, layer: int | None = None, head: int | None = None) -> Parts:
        """The three factors of a query at a position.

        Args:
            position: counted from 0, one or many.
            keys: how many keys it may attend to, itself counted in, one or many, broadcast with the positions; None takes
                position + 1, a causal row without a window.
            layer: from 0; None is a layer that the rule acts on.
            head: query head from 0; None gives all heads as the first axis, where heads differ.

        Raises:
            InputError: a position below 0, keys below 1, no such layer or head.

        >>> from attnlim.rules import yarn
        >>> round(yarn(4.0).parts(100_000).logit.rotary, 4), yarn(4.0).parts(100_000).logit.other
        (1.2965, 1.0)
        """
        where = _whole("position", position, 0)
        seen = where + 1 if keys is None else _whole("keys", keys, 1)
        if layer is not None:
            layer = whole_number("layer", layer, 0)
        where, seen = np.broadcast_arrays(where, seen)
        values: dict[str, Numbers] = dict.fromkeys(("cos_sin", "softmax", "query"), 1.0)
        for factor in self.factors:
            if factor.acts_on(layer):
                values[factor.place] = values[factor.place] * factor.at(where, seen, layer, head)
        return Parts(
            **{place: _plain(np.asarray(value, dtype=np.float64), where.shape) for place, value in values.items()}
        )

    def gap(self, n_tokens: int, layer: int | None = None, head: int | None = None) -> float:
        r"""The logit gap that the rule takes for granted at a context: how many nats of ln n a unit of its factor makes up for.

        .. math:: \Delta = \frac{d \ln n}{d\,\text{factor}}

        Source: [*derived*](../rules-derivations.md#logit-gap): a key that leads by Δ nats keeps its share of the attention
        when its logit gap grows by ln n. A factor that is set once for a target is read as a function of that target; steps
        as the smooth curve through their beginnings.

        Args:
            n_tokens: n, tokens, at least 2.
            layer: as for :meth:`parts`.
            head: the same; needed where heads differ.

        Returns:
            Nats; ``inf`` for a rule that does not change with n.

        Raises:
            InputError: heads differ and none is given.

        >>> from attnlim.rules import logn, yarn
        >>> round(logn(4096).gap(32768), 4), round(yarn(8.0).gap(32768), 4)
        (8.3178, 4.1393)
        """
        n = whole_number("n_tokens", n_tokens, 2)
        acting = [factor for factor in self.factors if factor.acts_on(layer)]
        if any(factor.per_head for factor in acting) and head is None:
            raise InputError(f"{self.name}: heads differ; say which with head=")
        relative = sum(factor.growth(n, layer, head) for factor in acting)
        whole = float(self.parts(n - 1, n, layer, head).logit.rotary)
        return 1 / (whole * relative) if relative else math.inf

    def on(self, resolve: Callable[[Kind], tuple[int, ...] | None]) -> Rule:
        """The rule on a model: ``resolve`` tells which layers are of a kind."""
        return replace(self, factors=tuple(replace(one, layers=resolve(one.kind)) for one in self.factors))

    def __mul__(self, other: Rule) -> Rule:
        """Both at once."""
        return Rule(" × ".join(filter(None, (self.name, other.name))), self.factors + other.factors)


def _whole(name: str, given: Any, least: int) -> np.ndarray:
    values = np.asarray(given)
    if values.dtype.kind not in "iuf" or not bool((values >= least).all()) or not bool((values % 1 == 0).all()):
        raise InputError(f"{name} must be whole numbers of at least {least}, got {given!r}")
    return values.astype(np.int64)


def _plain(value: np.ndarray, shape: tuple[int, ...]) -> Numbers:
    """A float for one position, else an array with the shape of the positions at its end."""
    full = np.broadcast_to(value, np.broadcast_shapes(value.shape, shape))
    return float(full) if full.ndim == 0 else full
