"""The catalogue against the published constants, against limits of its own, and between numbers, arrays and tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlim import rules
from attnlim.core.checks import InputError
from attnlim.rules import Rule, factors

# rules that act by position, with the length where they begin
BY_POSITION: dict[str, tuple[Callable[[], Rule], int]] = {
    "logn": (lambda: rules.logn(2048), 2048),
    "grok": (lambda: rules.grok(1024), 1024),
    "llama4": (lambda: rules.llama4(), 8191),
    "ministral": (lambda: rules.ministral(16384), 16384),
    "critical": (lambda: rules.critical(512, 0.5), 512),
    "log_slope": (lambda: rules.log_slope(512, 0.2), 512),
}


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(4, 1.13863), (16, 1.27726), (32, 1.34657), (40, 1.36889), (64, 1.41589), (128, 1.48520)],
)
def test_yarn_on_cos_and_sin(factor: float, expected: float) -> None:
    parts = rules.yarn(factor).parts(0)
    assert parts.cos_sin == pytest.approx(expected, abs=5e-6)  # the figures have five decimals
    assert parts.logit.rotary == parts.cos_sin**2
    assert (parts.softmax, parts.query, parts.logit.other) == (1, 1, 1)


@pytest.mark.parametrize(("factor", "mscale", "expected"), [(40.0, 1.0, 1.8739), (40.0, 0.707, 1.5896)])
def test_deepseek_on_the_softmax_scale(factor: float, mscale: float, expected: float) -> None:
    parts = rules.latent_yarn(factor, mscale, mscale).parts(0)
    assert parts.cos_sin == 1
    assert parts.softmax == pytest.approx(expected, abs=5e-5)
    assert parts.logit.rotary == parts.logit.other == parts.softmax


def test_deepseek_without_mscale_all_dim_is_plain_yarn() -> None:
    parts = rules.latent_yarn(40.0, 1.0, None).parts(0)
    assert (parts.cos_sin, parts.softmax) == (factors.yarn_scale(40.0), 1)


def test_longrope() -> None:
    parts = rules.longrope(32.0, 4096).parts(131071)
    assert parts.cos_sin == pytest.approx(1.19024, abs=5e-6)
    assert parts.logit.rotary == pytest.approx(1.41667, abs=5e-6)
    assert parts.logit.rotary == pytest.approx(math.log(131072) / math.log(4096), rel=1e-15)


def test_llama_4_begins_a_token_before_the_length_and_ministral_at_it() -> None:
    assert rules.llama4().parts([0, 8190]).query.tolist() == [1, 1]
    assert rules.llama4().parts(8191).query == pytest.approx(1.0693, abs=5e-5)
    assert rules.ministral(8192).parts([0, 8191]).query.tolist() == [1, 1]
    assert rules.ministral(8192).parts(8192).query == rules.llama4().parts(8191).query


def test_attention_factor_overrides_and_does_not_multiply() -> None:
    assert rules.yarn(40.0, attention_factor=1.0).parts(0).cos_sin == 1
    assert rules.yarn(40.0, 1.0, 0.5, attention_factor=1.2).parts(0).cos_sin == 1.2


def test_one_mscale_alone_does_nothing() -> None:
    plain = rules.yarn(40.0).parts(0).cos_sin
    assert rules.yarn(40.0, mscale=0.7).parts(0).cos_sin == plain
    assert rules.yarn(40.0, mscale_all_dim=0.7).parts(0).cos_sin == plain


@pytest.mark.parametrize("name", BY_POSITION)
def test_a_rule_by_position_is_exactly_one_up_to_its_length_and_grows_from_there(name: str) -> None:
    make, begins = BY_POSITION[name]
    positions = np.arange(0, 4 * 16384 + 1)
    query = make().parts(positions).query
    first = int(np.flatnonzero(query != 1)[0])
    # Grok's is 1 at T itself, others begin with the n_0-th key or position
    assert first == {"grok": begins + 1}.get(name, begins)
    assert (query[:first] == 1).all()
    assert (np.diff(query) >= 0).all()


@pytest.mark.parametrize("name", BY_POSITION)
def test_a_tensor_gives_what_an_array_gives(name: str) -> None:
    """In float32, which a running model uses: a few units in the last place of a factor near 1."""
    make, begins = BY_POSITION[name]
    position = np.unique(np.concatenate([np.arange(64), begins + np.arange(-2, 3), [5 * begins]]))
    (factor,) = make().factors
    wide = factor.at(position, position + 1)
    narrow = factor.value(torch.from_numpy(position), torch.from_numpy(position + 1), **factor.parameters)
    assert narrow.dtype == torch.float32
    np.testing.assert_allclose(narrow.numpy(), wide, rtol=1e-6)
    assert (narrow.numpy()[wide == 1] == 1).all()


def test_ssmax_is_zero_at_one_key_unless_it_has_a_bias() -> None:
    assert rules.ssmax().parts(0).query == 0
    assert rules.ssmax(bias=0.5).parts(0).query == 0.5
    assert rules.ssmax().parts(999).query == pytest.approx(0.43 * math.log(1000), rel=1e-15)


def test_visible_keys_and_not_the_position_decide_what_n_is() -> None:
    assert rules.su(512).parts(4095, keys=512).query == 1
    assert rules.log_slope(512, 0.2).parts(4095, keys=512).query == 1
    assert rules.critical(512, 1.0).parts(4095, keys=512).query == 1
    assert rules.logn(512).parts(4095, keys=512).query > 1  # Qwen's is by position


@given(st.integers(2, 10**6), st.integers(0, 10**7))
def test_the_critical_rule_holds_qwens_and_its_root_and_none(trained: int, position: int) -> None:
    qwen = rules.logn(trained).parts(position).query
    assert rules.critical(trained, 1.0).parts(position).query == pytest.approx(qwen, rel=1e-12)
    assert rules.critical(trained, 0.5).parts(position).query ** 2 == pytest.approx(qwen, rel=1e-12)
    assert rules.critical(trained, 0.0).parts(position).query == 1


def test_heads_that_differ_come_first_and_can_be_picked() -> None:
    rule = rules.ssmax(scale=[0.1, 0.2, 0.3])
    both = rule.parts([9, 99]).query
    assert both.shape == (3, 2)
    assert rule.parts(99, head=1).query == both[1, 1]


def test_heads_do_not_pair_with_keys() -> None:
    """One position and many keys: every head at every number of keys."""
    rule = rules.critical(64, [0.0, 1.0])
    found = rule.parts(0, [64, 4096, 262144]).query
    np.testing.assert_allclose(found, [[1, 1, 1], [1, 2, 3]], rtol=1e-12)
    np.testing.assert_array_equal(rule.parts([9, 99, 999], 4096).query, [[1] * 3, [2] * 3])


def test_layers_that_differ_have_to_be_named() -> None:
    rule = rules.log_slope(16, [[0.1, 0.2], [0.3, 0.4]])
    with pytest.raises(InputError, match="differs between layers; say which with layer="):
        rule.parts(99)
    assert rule.parts(31, layer=1, head=0).query == pytest.approx(1 + 0.3 * math.log(2), rel=1e-15)
    with pytest.raises(InputError, match="has 2 layers, no layer 2"):
        rule.parts(99, layer=2)
    with pytest.raises(InputError, match="has 2 heads, no head 5"):
        rule.parts(99, layer=0, head=5)


def test_layers_of_a_kind() -> None:
    rule = rules.llama4().on(lambda kind: (3, 7) if kind == "nope" else None)
    assert rule.parts(10**5, layer=2).query == 1
    assert rule.parts(10**5, layer=3).query == rule.parts(10**5).query > 1


def test_rules_multiply_place_by_place() -> None:
    both = rules.yarn(16.0) * rules.ministral(16384)
    parts = both.parts(131071)
    assert parts.cos_sin == rules.yarn(16.0).parts(0).cos_sin
    assert parts.query == rules.ministral(16384).parts(131071).query
    assert parts.logit.rotary == pytest.approx(parts.cos_sin**2 * parts.query, rel=1e-15)


@pytest.mark.parametrize(
    ("at", "gap"),
    [
        (lambda n: rules.yarn(n / 4096).parts(0).logit.rotary, lambda n: rules.yarn(n / 4096).gap(n)),
        (lambda n: rules.longrope(n / 4096, 4096).parts(0).logit.rotary, lambda n: rules.longrope(n / 4096, 4096).gap(n)),
        (lambda n: rules.latent_yarn(n / 4096, 1.0, 0.7).parts(0).logit.rotary, lambda n: rules.latent_yarn(n / 4096, 1.0, 0.7).gap(n)),
        (lambda n: rules.frozen_log(4096, n).parts(0).logit.rotary, lambda n: rules.frozen_log(4096, n).gap(n)),
        (lambda n: rules.logn(4096).parts(n - 1).query, lambda n: rules.logn(4096).gap(n)),
        (lambda n: rules.grok(4096).parts(n - 1).query, lambda n: rules.grok(4096).gap(n)),
        (lambda n: rules.su(4096).parts(n - 1).query, lambda n: rules.su(4096).gap(n)),
        (lambda n: rules.ssmax(0.43).parts(n - 1).query, lambda n: rules.ssmax(0.43).gap(n)),
        (lambda n: rules.swan(0.1, 0.2).parts(n - 1).query, lambda n: rules.swan(0.1, 0.2).gap(n)),
        (lambda n: rules.critical(4096, 0.7).parts(n - 1).query, lambda n: rules.critical(4096, 0.7).gap(n)),
        (lambda n: rules.log_slope(4096, 0.3).parts(n - 1).query, lambda n: rules.log_slope(4096, 0.3).gap(n)),
        (lambda n: (rules.yarn(n / 4096) * rules.logn(4096)).parts(n - 1).logit.rotary, lambda n: (rules.yarn(n / 4096) * rules.logn(4096)).gap(n)),
    ],
)  # fmt: skip
def test_the_gap_is_the_derivative_of_ln_n_in_the_factor(
    at: Callable[[int], float], gap: Callable[[int], float]
) -> None:
    """By central differences over 2h = 2/1024 of n, whose error is of the order h²."""
    n = 2**20
    low, high = n - n // 1024, n + n // 1024
    slope = math.log(high / low) / (at(high) - at(low))
    assert gap(n) == pytest.approx(slope, rel=2e-5)


def test_gaps_that_rules_are_known_by() -> None:
    assert rules.yarn(1 + 1e-9).gap(4096) == pytest.approx(5, rel=1e-6)
    assert rules.llama4().gap(2**40) == pytest.approx(10, rel=1e-6)
    assert rules.logn(2048).gap(8192) == pytest.approx(math.log(2048), rel=1e-12)
    assert rules.ssmax(0.43).gap(8192) == pytest.approx(1 / 0.43, rel=1e-12)
    assert rules.none().gap(8192) == rules.constant(1.2).gap(8192) == math.inf


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: rules.yarn(0.5), "factor must be a finite number of at least 1"),
        (lambda: rules.yarn(math.nan), "factor must be a finite number"),
        (lambda: rules.logn(1), "trained must be a whole number of at least 2"),
        (lambda: rules.constant(-1.0), "value must be a finite number of at least 0"),
        (lambda: rules.log_slope(4096, [[math.nan]]), "slope must be finite numbers"),
        (lambda: rules.frozen_log(8192, 4096), "target must be a whole number of at least 8192"),
        (lambda: rules.none().parts(-1), "position must be whole numbers of at least 0"),
        (lambda: rules.none().parts(0.5), "position must be whole numbers"),
        (lambda: rules.none().parts(3, keys=0), "keys must be whole numbers of at least 1"),
        (lambda: rules.ssmax([0.4, 0.5]).gap(100), "heads differ; say which with head="),
    ],
)
def test_what_is_refused(make: Callable[[], Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        make()


def test_the_gap_of_a_head() -> None:
    assert rules.ssmax([0.4, 0.5]).gap(100, head=1) == pytest.approx(2, rel=1e-12)
    assert rules.log_slope(64, [[0.1, 0.2], [0.0, 0.4]]).gap(100, layer=0, head=1) == pytest.approx(5, rel=1e-12)
    assert rules.log_slope(64, [[0.1, 0.2], [0.0, 0.4]]).gap(100, layer=1, head=0) == math.inf
