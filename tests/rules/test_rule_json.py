"""Rules as JSON: every rule of the catalogue and back, and nothing but known functions."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnlim.core.checks import InputError
from attnlim.rules import Rule, catalogue, factors, from_json, to_json
from attnlim.rules.rule_json import KNOWN

CATALOGUE = [
    catalogue.none(), catalogue.constant(1.2), catalogue.constant([[1.0, 2.0], [0.5, 0.25]]), catalogue.yarn(4.0),
    catalogue.latent_yarn(40.0, 1.0, 1.0), catalogue.longrope(32.0, 4096), catalogue.mscale_by_length(1.0, 1.25, 4096),
    catalogue.logn(2048), catalogue.grok(1024), catalogue.llama4(), catalogue.ministral(16384), catalogue.ssmax(),
    catalogue.ssmax([0.1, 0.2], [0.0, 1.0]), catalogue.swan(0.1, 0.2), catalogue.su(512), catalogue.frozen_log(8192, 16384),
    catalogue.critical(64, 0.5), catalogue.critical(64, [0.0, 1.0]), catalogue.log_slope(4096, 0.2),
    catalogue.logn(2048) * catalogue.constant(1.1),
]  # fmt: skip
POSITIONS = np.array([0, 1, 100, 4095, 4096, 8191, 131071])


@pytest.mark.parametrize("rule", CATALOGUE, ids=lambda rule: rule.name)
def test_every_rule_of_the_catalogue(rule: Rule) -> None:
    again = from_json(to_json(rule))
    assert to_json(again) == to_json(rule)
    layer = 1 if any(np.ndim(value) == 2 for one in rule.factors for value in one.parameters.values()) else None
    for place in ("cos_sin", "softmax", "query"):
        np.testing.assert_array_equal(
            getattr(rule.parts(POSITIONS, None, layer), place), getattr(again.parts(POSITIONS, None, layer), place)
        )
    for mine, its in zip(rule.factors, again.factors, strict=True):
        assert (mine.kind, mine.layers, mine.learned, mine.by_position, mine.source) == (
            its.kind, its.layers, its.learned, its.by_position, its.source,
        )  # fmt: skip
        if mine.by_position and mine.place == "query":
            assert its.growth(32768, layer, 1) == mine.growth(32768, layer, 1) != 0
        else:
            assert its.gap is None


def test_layers_are_kept() -> None:
    rule = Rule("some", (replace(catalogue.su(4).factors[0], layers=(0, 2), kind="local"),))
    assert from_json(to_json(rule)).factors[0].layers == (0, 2)


def test_every_function_of_the_catalogue_is_known() -> None:
    used = {one.value for rule in CATALOGUE for one in rule.factors}
    assert used <= set(KNOWN.values())
    assert set(KNOWN) == {
        name
        for name, one in inspect.getmembers(factors, inspect.isfunction)
        if not name.startswith("_") and "position" in inspect.signature(one).parameters
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nonsense", "a rule must be JSON text"),
        ("[]", "a rule must have factors, name, got list"),
        ('{"name": "a"}', "a rule must have factors, name, got name"),
        ('{"name": "a", "factors": {}}', "factors of a rule is of the wrong kind"),
        ('{"name": "a", "factors": [3]}', "a factor must have .*, got int"),
    ],
)
def test_texts_that_are_no_rule(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        from_json(text)


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("function", "exec", "unknown function 'exec'"),
        ("kind", "some", "unknown kind 'some'"),
        ("layers", [-1], "must name its layers by whole numbers"),
        ("layers", [True], "must name its layers by whole numbers"),
        ("learned", ["other"], "must have the parameters"),
        ("parameters", {}, "must have the parameters trained, got"),
        ("parameters", {"trained": float("inf")}, "must be a finite number"),
        ("parameters", {"trained": [[[1.0]]]}, "must be a finite number"),
        ("parameters", {"trained": []}, "must be a finite number"),
        ("by_position", 1, "by_position of a factor is of the wrong kind"),
    ],
)
def test_fields_that_are_wrong(field: str, value: Any, complaint: str) -> None:
    data = json.loads(to_json(catalogue.logn(2048)))
    data["factors"][0][field] = value
    with pytest.raises(InputError, match=complaint):
        from_json(json.dumps(data))


def test_functions_from_elsewhere_are_not_written() -> None:
    one = replace(catalogue.logn(4).factors[0], value=lambda position, keys, trained: 1.0)
    with pytest.raises(InputError, match="which is no function of attnlim.rules.factors"):
        to_json(Rule("own", (one,)))
    with pytest.raises(InputError, match="which is no function of attnlim.rules.factors"):
        to_json(Rule("own", (replace(one, value=factors.logn.__class__),)))
