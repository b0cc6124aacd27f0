"""Where a rule begins and where two rules part, against every single position; what is applied, in words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.rules.real_configs import real

from attnlim.core.checks import InputError
from attnlim.rules import (
    Rule,
    applied,
    compare,
    critical,
    grok,
    llama4,
    log_slope,
    logn,
    ministral,
    mscale_by_length,
    none,
    read,
    ssmax,
    su,
    yarn,
)
from attnlim.rules.effect_findings import begins_at
from attnlim.rules.landmark_positions import landmarks

RULES: dict[str, Rule] = {
    "none": none(),
    "yarn": yarn(4.0),
    "logn": logn(777),
    "grok": grok(500),
    "llama4": llama4(1000, 0.1),
    "ministral": ministral(900, 0.2),
    "other steps": ministral(900, 0.21),
    "critical": critical(600, 0.5),
    "log slope": log_slope(333, 0.1),
    "by length": mscale_by_length(1.0, 1.2, 450),
    "both": yarn(2.0) * ministral(900, 0.2),
    "su": su(512),
    "ssmax": ssmax(0.2, 0.4),
}
LAST = 5000


@pytest.mark.parametrize("first", RULES)
@pytest.mark.parametrize("second", ["none", "ministral", "logn", "yarn", "su"])
def test_two_rules_part_where_every_position_says(first: str, second: str) -> None:
    one, two = RULES[first], RULES[second]
    everywhere = np.arange(LAST + 1)
    values = [np.asarray(rule.parts(everywhere).logit.rotary) for rule in (one, two)]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((values[0] == 0) & (values[1] == 0), 1.0, values[1] / values[0])
    apart = np.flatnonzero(~np.isclose(ratio, 1.0, rtol=1e-9, atol=0))
    (found,) = [row for row in compare(one, two, last=LAST) if "other" not in row.words]
    assert found.first_difference == (int(apart[0]) if apart.size else None)
    with np.errstate(divide="ignore"):
        largest = np.abs(np.log(np.abs(ratio)))
        # monotone pieces have their extremes at their ends, which are all looked at
        assert (
            abs(math.log(abs(found.largest))) == pytest.approx(largest.max())
            if found.largest
            else largest.max() == math.inf
        )


def test_of_heads_the_one_that_differs_most() -> None:
    by_head = log_slope(4096, [0.0, 0.5, -0.2])
    (found,) = compare(none(), by_head, last=16383)
    assert (found.first_difference, found.position) == (4096, 16383)
    assert found.largest == pytest.approx(1 + 0.5 * math.log(4), rel=1e-12)
    with pytest.raises(InputError, match="has 3 heads and log slope 2; compare rules for one model"):
        compare(by_head, log_slope(4096, [0.1, 0.2]), last=16383)


def test_rules_with_numbers_for_each_layer_are_compared_layer_by_layer() -> None:
    one, two = log_slope(64, [[0.1, 0.2], [0.3, 0.4]]), log_slope(64, [[0.1, 0.2], [0.3, 0.5]])
    rows = {row.words: row for row in compare(one, two, last=255)}
    assert list(rows) == ["layer 0", "layer 1"] and rows["layer 0"].first_difference is None
    assert rows["layer 1"].largest == pytest.approx((1 + 0.5 * math.log(4)) / (1 + 0.4 * math.log(4)), rel=1e-12)
    assert [row.words for row in compare(none(), one, last=255)] == ["layer 0", "layer 1"]


def test_position_0_alone_shows_nothing() -> None:
    """Negative control: at position 0 three different rules are one."""
    assert {rule.parts(0).query for rule in (logn(777), ministral(900), llama4(1000))} == {1.0}
    for other in (ministral(900), llama4(1000)):
        assert compare(logn(777), other, last=LAST)[0].first_difference is not None


def test_rules_that_are_the_same_but_for_rounding_do_not_part() -> None:
    doubled = Rule("doubled", (*log_slope(333, 0.1).factors, *yarn(1.0).factors))
    assert compare(log_slope(333, 0.1), doubled, last=LAST)[0].first_difference is None


def test_all_steps_are_looked_at() -> None:
    wanted = {step * 900 + near for step in range(1, 6) for near in (-1, 0) if step * 900 + near <= LAST}
    assert wanted <= set(landmarks([RULES["ministral"]], LAST).tolist())
    with pytest.raises(InputError, match="last must be a whole number"):
        compare(none(), none(), last=0)


@pytest.mark.parametrize("name", ["llama-4-scout", "olmo-3-7b", "qwen-7b", "grok-2", "ministral-3-8b", "deepseek-v3"])
def test_a_reading_begins_where_every_position_says(name: str) -> None:
    reading = read(real(name))
    everywhere = np.arange(40000)
    for kind in reading.kinds:
        logit = reading.parts(everywhere, layer=kind.layers[0]).logit
        away = (np.asarray(logit.rotary) != 1) & kind.rotary | (np.asarray(logit.other) != 1)
        wanted = int(np.flatnonzero(away)[0]) if away.any() else None
        assert begins_at(reading, kind, 39999) == wanted


def test_two_readings_are_compared_by_kind_of_layers() -> None:
    scout, olmo = read(real("llama-4-scout")), read(real("olmo-3-7b"))
    slower = read(real("llama-4-scout")["text_config"] | {"attn_scale": 0.2})
    rows = {row.words: row for row in compare(scout, slower)}
    assert rows["layers with rotary positions"].first_difference is None
    without = rows["layers without rotary positions"]
    steps = math.log(1 + (10485759 + 1) // 8192)
    assert without.first_difference == 8191
    assert without.largest == pytest.approx((1 + 0.2 * steps) / (1 + 0.1 * steps)) and without.position == 10485759
    assert len(compare(scout, olmo)) == 2  # models of other sizes are compared too


def test_dimensions_that_do_not_turn_are_compared_by_themselves() -> None:
    latent = real("deepseek-v3")
    rope = latent["rope_scaling"]
    broken = read(latent | {"rope_scaling": {key: value for key, value in rope.items() if key != "mscale_all_dim"}})
    rows = {row.words: row for row in compare(read(latent), broken)}
    # on rotary dimensions one factor makes up for the other; on the others nothing does
    assert rows["all layers, rotary dimensions"].first_difference is None
    assert rows["all layers, other dimensions"].largest == pytest.approx(1 / 1.8739, abs=5e-5)


def test_what_is_not_known_is_said() -> None:
    (row,) = [
        one
        for one in compare(read({"model_type": "mistral_large4_text"}), read({"model_type": "llama"}))
        if "without" in one.words
    ]
    assert math.isnan(row.largest) and row.first_difference == 0


@pytest.mark.parametrize(
    ("config", "context", "sentence"),
    [
        ("smollm2-135m", 8192, "The config applies no scaling rule: logits are q·k/√d at every length."),
        ("qwen2.5-7b-yarn", 512, "The config already multiplies logits by 1.296 at 512 tokens (YaRN)."),
        ("ministral-3-8b", 16384, "The config's rule (Ministral 3's query scaling) is 1 at 16384 tokens: it begins at position 16384."),
        ("ministral-3-8b", 16385, "The config already multiplies logits by 1.069 at 16385 tokens (Ministral 3's query scaling)."),
        ("llama-4-scout", 8192, "The config already multiplies logits by 1.069 on layers without rotary positions at 8192 tokens (Llama 4's temperature tuning)."),
        ("olmo-3-7b", 8192, "The config already multiplies logits by 1.459 on layers with the whole context at 8192 tokens (YaRN)."),
        ("deepseek-v3", 8192, "The config already multiplies logits by 1.874 at 8192 tokens (YaRN on multi-head latent attention)."),
    ],
)  # fmt: skip
def test_what_is_already_applied(config: str, context: int, sentence: str) -> None:
    assert applied(read(real(config)), context) == sentence


def test_rotary_and_other_dimensions_are_told_apart() -> None:
    partial: dict[str, Any] = {
        "model_type": "glm",
        "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
    }
    reading = read(partial)
    assert (reading.rotary_dim, reading.head_dim) == (64, 128)
    assert applied(reading, 100) == (
        "The config already multiplies logits by 1.296 on rotary dimensions and 1.000 on the others at 100 tokens (YaRN)."
    )


def test_the_logit_gap_of_a_reading_is_that_of_its_rule() -> None:
    assert read(real("qwen-7b")).gap(8192) == logn(2048).gap(8192) == pytest.approx(math.log(2048))
    assert read(real("llama-4-scout")).gap(10**6) == llama4().gap(10**6)
    assert read(real("llama-4-scout")).gap(10**6, layer=0) == math.inf


def test_layers_are_compared_as_each_model_has_them() -> None:
    """Same number of layers, other layers without rotary positions: every pair of kinds that meets in a layer."""
    shape = {"num_hidden_layers": 4, "max_position_embeddings": 65536}
    one = read({"model_type": "llama4_text", "no_rope_layers": [1, 0, 1, 0], **shape})
    two = read({"model_type": "llama4_text", "no_rope_layers": [1, 1, 0, 0], **shape})
    firsts = [row.first_difference for row in compare(one, two)]
    assert sorted(firsts, key=str) == [8191, 8191, None, None]
    # a layer with rotary positions meets one without: what each does to its own logits
    stretched = read({"model_type": "llama", "rope_scaling": {"type": "yarn", "factor": 4.0}, **shape})
    rows = {row.words: row for row in compare(stretched, one)}
    assert {row.first_difference for row in rows.values()} == {0}
    assert rows["layers with rotary positions"].largest == pytest.approx(1 / 1.13863**2, rel=1e-5)
