"""A rule as JSON and back: factors by the names of their functions, so that nothing in a file can run."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from attnlim.core.checks import InputError
from attnlim.rules import catalogue, factors
from attnlim.rules.rule import Factor, Kind, Place, Rule

KNOWN = {
    name: function
    for name, function in inspect.getmembers(factors, inspect.isfunction)
    if list(inspect.signature(function).parameters)[:2] == ["position", "keys"]
}
"""The functions that a factor in a file may name, with the parameters that each takes."""

# a gap is a function, which a file cannot hold: that of a function follows from the catalogue, that of a constant does not
_GAPS = {
    one.factors[0].value: one.factors[0].gap
    for one in (
        catalogue.logn(2),
        catalogue.grok(2),
        catalogue.llama4(),
        catalogue.ministral(2),
        catalogue.ssmax(),
        catalogue.su(2),
        catalogue.critical(2, 1.0),
        catalogue.log_slope(2, 1.0),
    )
}


def to_json(rule: Rule) -> str:
    """A rule as JSON text.

    Raises:
        InputError: a factor whose function is none of :mod:`attnlim.rules.factors`.

    >>> from attnlim.rules import log_slope
    >>> from_json(to_json(log_slope(4096, [0.1, 0.2]))).parts(8191).query.round(4).tolist()
    [1.0693, 1.1386]
    """
    return json.dumps(as_data(rule), ensure_ascii=False)


def from_json(text: str) -> Rule:
    """The rule of a JSON text; the gap of a constant is not kept, so it has none.

    Raises:
        InputError: not JSON, or not a rule of this form.
    """
    try:
        data = json.loads(text)
    except ValueError as reason:
        raise InputError(
            f"a rule must be JSON text as to_json writes it, got {str(text)[:40]!r} ({reason})"
        ) from reason
    return from_data(data)


def as_data(rule: Rule) -> dict[str, Any]:
    """A rule as what JSON can hold."""
    return {"name": rule.name, "factors": [_factor_data(factor) for factor in rule.factors]}


def from_data(data: Any) -> Rule:
    """The rule of :func:`as_data`.

    Raises:
        InputError: not of this form.
    """
    found = _fields("a rule", data, {"name": str, "factors": list})
    return Rule(found["name"], tuple(map(_factor, found["factors"])))


def _factor_data(factor: Factor) -> dict[str, Any]:
    function = getattr(factor.value, "__name__", "")
    if KNOWN.get(function) is not factor.value:
        raise InputError(
            f"{factor.name} is computed by {function or factor.value!r}, which is no function of attnlim.rules.factors; "
            "a file can hold only those"
        )
    return {
        "name": factor.name,
        "place": factor.place,
        "function": function,
        "parameters": {name: np.asarray(value).tolist() for name, value in factor.parameters.items()},
        "formula": factor.formula,
        "source": factor.source,
        "by_position": factor.by_position,
        "learned": list(factor.learned),
        "kind": factor.kind,
        "layers": None if factor.layers is None else [int(number) for number in factor.layers],
    }


def _factor(data: Any) -> Factor:
    expected = {
        "name": str, "place": str, "function": str, "parameters": dict, "formula": str, "source": str,
        "by_position": bool, "learned": list, "kind": str, "layers": (list, type(None)),
    }  # fmt: skip
    found = _fields("a factor", data, expected)
    where = f"the factor {found['name']!r}"
    for field, allowed in (("function", KNOWN), ("place", get_args(Place)), ("kind", get_args(Kind))):
        if found[field] not in allowed:
            raise InputError(
                f"{where} has the unknown {field} {found[field]!r}; known are {', '.join(allowed)}; "
                "another version of attnlim may know it"
            )
    function = KNOWN[found["function"]]
    takes = inspect.signature(function).parameters
    wanted = {name for name in list(takes)[2:] if takes[name].default is inspect.Parameter.empty}
    given = set(found["parameters"])
    if not wanted <= given <= set(list(takes)[2:]) or not set(found["learned"]) <= given:
        raise InputError(
            f"{where} must have the parameters {', '.join(sorted(wanted))}, got {', '.join(sorted(given))}"
        )
    layers = found["layers"]
    if layers is not None and not all(type(number) is int and number >= 0 for number in layers):
        raise InputError(f"{where} must name its layers by whole numbers, got {layers!r}")
    parameters = {name: _numbers(f"{name} of {where}", value) for name, value in found["parameters"].items()}
    return Factor(
        name=found["name"],
        place=found["place"],
        value=function,
        parameters=parameters,
        formula=found["formula"],
        source=found["source"],
        gap=_GAPS.get(function),
        by_position=found["by_position"],
        learned=tuple(found["learned"]),
        kind=found["kind"],
        layers=None if layers is None else tuple(layers),
    )


def _numbers(name: str, value: Any) -> Any:
    """An int or float as it is, a list or a list of lists as float64."""
    if type(value) in (int, float) and math.isfinite(value):
        return value
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if not isinstance(value, list) or array.ndim not in (1, 2) or not array.size or bool(np.isinf(array).any()):
        raise InputError(f"{name} must be a finite number, or one for each head or each layer and head")
    return array


def _fields(what: str, data: Any, expected: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(data, dict) or set(data) != set(expected):
        got = ", ".join(sorted(map(str, data))) if isinstance(data, dict) else type(data).__name__
        raise InputError(f"{what} must have {', '.join(sorted(expected))}, got {got}")
    for name, kind in expected.items():
        if not isinstance(data[name], kind):
            raise InputError(f"{name} of {what} is of the wrong kind, got {data[name]!r}")
    return data
