"""A rule on one attention layer: a module that holds its learned parameters and scales the queries that pass.

It is a child of the attention module, so its parameters move, train and are listed with the model's own.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from attnlim.core.checks import InputError
from attnlim.models.hook import AttentionCall
from attnlim.models.query_places import QueryPlaces, query_places
from attnlim.rules.reached_attention import ReachedLayer
from attnlim.rules.rule import Rule

CHILD = "attnlim_rule"


class Term(NamedTuple):
    """One factor on one layer.

    Attributes:
        number: its place in the rule.
        function: one of :mod:`attnlim.rules.factors`.
        by_position: it needs to know where a query stands.
        numbers: its plain constants.
        tensors: its parameters with one number a query head: the name in the function → in the module.
    """

    number: int
    function: Callable[..., Any]
    by_position: bool
    numbers: Mapping[str, float]
    tensors: Mapping[str, str]


@dataclass
class Pass:
    """What the layers of one pass through the model share, so that the first one works it out for all.

    It ends when a layer comes again, or another mask does: whatever changed in between is seen.

    Attributes:
        key: what the layers have in common; tensors by weak reference, because the pass does not own them.
        users: the layers that have used it.
        places: where the queries stand, (1 or batch, 1, n_queries, 1).
        factors: by the numbers of the terms: factors that are the same on all layers; None where they are 1 throughout.
    """

    key: tuple[Any, ...] = ()
    users: set[str] = field(default_factory=set)
    places: QueryPlaces | None = None
    factors: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a copy of the model begins its own pass

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]

    def joined_by(self, call: AttentionCall) -> Self:
        """This pass, begun anew where the call is not part of it."""
        given = (call.mask, call.position_ids, call.extras.get("cu_seq_lens_q"))
        sizes = (call.query.shape[0], call.query.shape[2], call.key.shape[2], call.query.device, call.query.dtype)
        modes = (call.causal, call.sliding_window, torch.is_inference_mode_enabled())
        same = (
            call.name not in self.users
            and self.key[3:] == (*sizes, *modes)
            and all(_refers(ref, one) for ref, one in zip(self.key, given, strict=False))
        )
        if not same:
            references = [None if one is None else weakref.ref(one) for one in given]
            self.key, self.users, self.places, self.factors = (*references, *sizes, *modes), set(), None, {}
        self.users.add(call.name)
        return self


def _refers(reference: weakref.ref[Tensor] | None, one: Tensor | None) -> bool:
    return one is None if reference is None else reference() is one


class LayerRule(nn.Module):
    """The query factors of a rule that act on one attention layer.

    Attributes:
        layer: its number in the model.
        n_heads: query heads.
        head_dim: dimensions of one of their queries.
        rule: the whole rule, as it was attached.
        on_top: it was attached although the model's config scales too.
    """

    def __init__(
        self, rule: Rule, reached: ReachedLayer, passes: dict[int | None, Pass], *, trainable: bool, on_top: bool
    ) -> None:
        super().__init__()
        self.layer, self.n_heads, self.head_dim = reached.layer, reached.n_heads, reached.head_dim
        self.rule, self.on_top, self._passes = rule, on_top, passes
        self._terms = tuple(self._taken(rule, trainable))

    def _taken(self, rule: Rule, trainable: bool) -> Iterator[Term]:
        """The terms of this layer; their parameters become this module's."""
        for number, factor in enumerate(rule.factors):
            if not factor.acts_on(self.layer):
                continue
            numbers, tensors = {}, {}
            for name, given in factor.parameters.items():
                chosen = np.asarray(given)[self.layer] if np.ndim(given) == 2 else given
                if name not in factor.learned and np.ndim(chosen) == 0:
                    numbers[name] = chosen
                    continue
                held = name if number == 0 else f"{name}_{number}"
                values = torch.as_tensor(
                    np.broadcast_to(np.asarray(chosen), (self.n_heads,)).copy(), dtype=torch.float32
                )
                if name in factor.learned:
                    setattr(self, held, nn.Parameter(values, requires_grad=trainable))
                else:
                    self.register_buffer(held, values, persistent=False)
                tensors[name] = held
            yield Term(number, factor.value, factor.by_position, numbers, tensors)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Follow the model to a device, but keep float32 where it goes to a narrower number."""

        def moved(tensor: Tensor) -> Tensor:
            new = fn(tensor)
            return tensor.to(new.device) if new.dtype.itemsize < tensor.dtype.itemsize <= 4 else new

        super()._apply(moved, recurse)  # type: ignore[no-untyped-call]
        return self

    def learned(self) -> Iterator[tuple[int, str, Tensor]]:
        """The learned parameters: the factor's number in the rule, its parameter, (n_heads,)."""
        for term in self._terms:
            for name, held in term.tensors.items():
                if name in self.rule.factors[term.number].learned:
                    yield term.number, name, getattr(self, held)

    def constant(self) -> Tensor:
        """(n_heads,) float64: the factor of each head.

        Raises:
            InputError: it differs between positions.
        """
        for term in self._terms:
            if term.by_position:
                raise InputError(
                    f"{self.rule.factors[term.number].name} differs between positions, so it is no constant"
                )
        ones = torch.ones(self.n_heads, dtype=torch.float64)  # on the CPU: not every accelerator has float64
        with torch.no_grad():
            ones *= self._product(0.0, 1.0, torch.float64, ones.device, (-1,))
        return ones

    def forward(self, call: AttentionCall) -> Tensor | None:
        """The scaled query in the query's dtype; None where it stays as it is."""
        factor = self.factor(call)
        if factor is None:
            return None
        scaled: Tensor = (call.query.to(_wide(call)) * factor).to(call.query.dtype)
        return scaled

    def factor(self, call: AttentionCall) -> Any:
        """A float or (1 or batch, 1 or n_heads, 1 or n_queries, 1) or fewer axes, None where it is 1 throughout."""
        by_position = any(term.by_position for term in self._terms)
        if torch.compiler.is_compiling():  # the compiler shares what layers have in common
            return self._at(call, _places(call) if by_position else None)
        if not by_position:
            return _unless_one(self._at(call, None))
        shared = self._passes.setdefault(call.sliding_window, Pass()).joined_by(call)
        if shared.places is None:
            shared.places = _places(call)
        if any(term.tensors for term in self._terms):
            factor = self._at(call, shared.places)
            # while decoding it is cheaper to multiply by 1 than to look
            return factor if call.query.shape[2] == 1 else _unless_one(factor)
        numbers = tuple(term.number for term in self._terms)
        if numbers not in shared.factors:
            shared.factors[numbers] = _unless_one(self._at(call, shared.places))
        return shared.factors[numbers]

    def _at(self, call: AttentionCall, places: QueryPlaces | None) -> Any:
        position, keys = (0.0, 1.0) if places is None else places
        return self._product(position, keys, _wide(call), call.query.device, (-1, 1, 1))

    def _product(
        self, position: Any, keys: Any, dtype: torch.dtype, device: torch.device, shape: tuple[int, ...]
    ) -> Any:
        product: Any = 1.0
        for term in self._terms:
            tensors = {
                name: getattr(self, held).to(device=device, dtype=dtype).view(shape)
                for name, held in term.tensors.items()
            }
            product = product * term.function(position, keys, **term.numbers, **tensors)
        return product


def _wide(call: AttentionCall) -> torch.dtype:
    """The type in which a query is multiplied: float32 at least."""
    return torch.promote_types(call.query.dtype, torch.float32)


def _places(call: AttentionCall) -> QueryPlaces:
    """Positions and keys as a factor for (batch, n_heads, n_queries, head_dim) takes them."""
    wide = _wide(call)
    return QueryPlaces(*(one[:, None, :, None].to(wide) for one in query_places(call)))


def _unless_one(factor: Any) -> Any:
    if not isinstance(factor, Tensor):
        return None if factor == 1.0 else factor
    # a gradient has to pass, and looking at numbers on an accelerator would make it wait
    if factor.requires_grad or factor.device.type != "cpu":
        return factor
    return None if bool((factor == 1.0).all()) else factor
