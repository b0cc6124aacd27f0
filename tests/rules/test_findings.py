"""Every kind of mistake that people report has a finding with the size of the error, and a config without it has none."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.rules.real_configs import NAMES, real

from attnlim.rules import Finding, ministral, read
from attnlim.rules.factors import yarn_scale

SHAPE = {"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64}
LLAMA = {"model_type": "llama", "max_position_embeddings": 16384, **SHAPE}
DEEPSEEK = {"model_type": "deepseek_v3", "max_position_embeddings": 163840, **SHAPE}
M4 = yarn_scale(4.0)  # YaRN's factor at s = 4


def yarn(factor: float = 4.0, original: int = 4096, **more: Any) -> dict[str, Any]:
    return {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original, **more}


def with_rope(base: dict[str, Any] = LLAMA, **keys: Any) -> dict[str, Any]:
    return base | {"rope_parameters": yarn(**keys)}


def found(config: dict[str, Any], kind: str) -> list[Finding]:
    return [finding for finding in read(config).findings if finding.kind == kind]


def only(config: dict[str, Any], kind: str) -> Finding:
    (finding,) = found(config, kind)
    return finding


# a flag that is silently ignored
@pytest.mark.parametrize(
    ("config", "what", "applied", "meant", "position"),
    [
        (LLAMA | {"model_type": "qwen2", "use_logn_attn": True, "seq_length": 2048}, "use_logn_attn", 1.0, 16, 65535),
        (with_rope(factor=1.0, original=16384, llama_4_scaling_beta=0.1), "llama_4_scaling_beta 0.1", 1.0, 4, 65535),
        (LLAMA | {"attn_temperature_tuning": True}, "attn_temperature_tuning", 1.0, 9, 65535),
        (LLAMA | {"log_scaling_n_floor": 4096}, "log_scaling_n_floor 4096", 1.0, 16, 65535),
    ],
)
def test_declared_but_not_honoured(
    config: dict[str, Any], what: str, applied: float, meant: int, position: int
) -> None:
    """``meant`` is the argument of the logarithm at the position where the size is told."""
    finding = only(config, "not-honoured")
    assert what in finding.sentence and finding.severity == "error"
    # 65536 tokens are 32 lengths of 2048; 4 of 16384, whose last step begins at 49152; 8 of 8192; 16 of 4096
    wanted = {
        "use_logn_attn": math.log(65536) / math.log(2048),
        "llama_4_scaling_beta 0.1": 1 + 0.1 * math.log(4),
        "attn_temperature_tuning": 1 + 0.1 * math.log(9),
        "log_scaling_n_floor 4096": 1 + 0.1 * math.log(16),
    }[what]
    assert (finding.applied, finding.position) == (applied, position)
    assert finding.meant == pytest.approx(wanted)
    assert f"instead of {wanted:.3f} at {position}" in finding.sentence


@pytest.mark.parametrize("name", NAMES)
def test_released_configs_are_honoured(name: str) -> None:
    """The negative control of the last test and of most others: what is released contradicts itself nowhere."""
    assert not [finding for finding in read(real(name)).findings if finding.severity == "error"]


def test_a_family_that_reads_the_flag_is_not_told_off() -> None:
    for name in ("qwen-7b", "llama-4-scout", "ministral-3-8b"):
        assert not found(real(name), "not-honoured")


# factor squared or applied twice
def test_the_square_on_logits_is_told() -> None:
    finding = only(with_rope(), "squared")
    assert (finding.severity, finding.applied) == ("note", pytest.approx(M4**2))
    assert "1.1386" in finding.sentence and "1.2965" in finding.sentence
    assert not found(LLAMA, "squared")


def test_an_attention_factor_that_is_already_squared() -> None:
    warnings = [
        one for one in found(with_rope(attention_factor=round(M4**2, 4)), "squared") if one.severity == "warning"
    ]
    (finding,) = warnings
    assert finding.applied == pytest.approx(M4**4, rel=1e-4) and finding.meant == pytest.approx(M4**2)
    assert not [one for one in found(with_rope(attention_factor=M4), "squared") if one.severity == "warning"]


def test_two_rules_for_the_same_length() -> None:
    base = {"model_type": "ministral3", "max_position_embeddings": 65536, **SHAPE, "head_dim": 16}
    twice = base | {"rope_parameters": yarn(factor=4.0, original=16384, llama_4_scaling_beta=0.1)}
    finding = only(twice, "applied-twice")
    last = 1 + 0.1 * math.log(4)
    assert finding.applied == pytest.approx(M4**2 * last) and finding.position == 65535
    once = base | {"rope_parameters": yarn(4.0, 16384, llama_4_scaling_beta=0.1, mscale=1.0, mscale_all_dim=1.0)}
    assert not found(once, "applied-twice")
    # Llama 4 with YaRN: one on layers with rotary positions, the other on those without
    apart = {"model_type": "llama4_text", "rope_parameters": yarn(32.0, 4096)}
    assert not found(apart, "applied-twice")


# attention_factor dropped, overriding, or taken for a multiplier
@pytest.mark.parametrize("kind", ["linear", "dynamic", "llama3", "default"])
def test_attention_factor_dropped(kind: str) -> None:
    more = (
        {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 4096}
        if kind == "llama3"
        else {}
    )
    config = LLAMA | {"rope_parameters": {"rope_type": kind, "factor": 4.0, "attention_factor": 1.2, **more}}
    finding = only(config, "attention-factor-dropped")
    assert (finding.severity, finding.applied, finding.meant) == ("error", 1.0, pytest.approx(1.44))
    assert read(config).parts(0).cos_sin == 1.0
    assert not found(with_rope(attention_factor=1.2), "attention-factor-dropped")


def test_attention_factor_overrides_and_is_no_multiplier() -> None:
    config = with_rope(DEEPSEEK, factor=40.0, attention_factor=1.2, mscale=1.0, mscale_all_dim=0.5)
    finding = only(config, "attention-factor-overrides")
    softmax = yarn_scale(40.0, 0.5) ** 2
    own = yarn_scale(40.0) / yarn_scale(40.0, 0.5)
    assert finding.severity == "warning" and "mscale and mscale_all_dim" in finding.sentence
    assert finding.applied == pytest.approx(1.44 * softmax) == pytest.approx(read(config).parts(0).logit.rotary)
    assert finding.meant == pytest.approx(own**2 * softmax)
    assert f"{(1.2 * own) ** 2 * softmax:.3f}" in finding.sentence  # as a multiplier
    assert not found(with_rope(), "attention-factor-overrides")
    assert only(with_rope(attention_factor=1.2), "attention-factor-overrides").severity == "note"


# mscale_all_dim missing, or one without the other
def test_mscale_all_dim_missing_on_latent_attention() -> None:
    config = with_rope(DEEPSEEK, factor=40.0)
    finding = only(config, "mscale-all-dim-missing")
    assert read(config).parts(0).softmax == 1.0
    assert finding.meant == pytest.approx(1.8739, abs=5e-5) and "× 1.8739" in finding.sentence
    assert finding.applied == pytest.approx(1.8739, abs=5e-5)  # cos and sin make up for it on rotary dimensions alone
    assert read(config).parts(0).logit.other == 1.0
    assert not found(real("deepseek-v3"), "mscale-all-dim-missing")


def test_mscale_alone() -> None:
    finding = only(with_rope(DEEPSEEK, factor=40.0, mscale=0.707), "mscale-alone")
    assert finding.applied == pytest.approx(yarn_scale(40.0) ** 2)
    assert finding.meant == pytest.approx(yarn_scale(40.0, 0.707) ** 2) == pytest.approx(1.5896, abs=5e-5)
    reverse = only(with_rope(DEEPSEEK, factor=40.0, mscale_all_dim=1.0), "mscale-alone")
    assert reverse.applied == pytest.approx(1.8739**2, rel=1e-4) and reverse.meant == pytest.approx(1.8739, rel=1e-4)
    assert not found(with_rope(DEEPSEEK, factor=40.0, mscale=0.707, mscale_all_dim=0.707), "mscale-alone")


def test_mscale_all_dim_without_latent_attention() -> None:
    finding = only(with_rope(factor=40.0, mscale=1.0, mscale_all_dim=1.0), "not-honoured")
    assert (finding.applied, finding.meant) == (1.0, pytest.approx(1.8739, abs=5e-5))
    assert only(real("ministral-3-8b"), "mscale-without-latent").severity == "note"


# unknown keys
@pytest.mark.parametrize(
    ("key", "value", "meant"),
    [
        ("attn_factor", 1.1, M4**2 * 1.21),  # a multiplier
        ("attention_scaling", 1.1, 1.21),  # in place of the factor
        ("attention_facter", 1.1, 1.21),  # misspelt
        ("factr", 8.0, None),
    ],
)
def test_unknown_keys_with_the_size_of_the_error(key: str, value: float, meant: float | None) -> None:
    finding = only(with_rope(**{key: value}), "unknown-key")
    assert key in finding.sentence and "does not read" in finding.sentence
    if meant is None:
        assert finding.meant == pytest.approx(yarn_scale(8.0) ** 2)
    else:
        assert (finding.severity, finding.applied) == ("error", pytest.approx(M4**2))
        assert finding.meant == pytest.approx(meant)
        assert f"instead of {meant:.3f}" in finding.sentence
    assert not found(with_rope(beta_fast=32.0, beta_slow=1.0, truncate=False), "unknown-key")


def test_a_key_of_another_rope_type_and_one_that_means_nothing() -> None:
    linear = LLAMA | {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "beta_fast": 32.0, "colour": "blue"}}
    told = found(linear, "unknown-key")
    assert [finding.severity for finding in told] == ["note", "note"]
    assert "no use for it" in told[0].sentence and "colour 'blue'" in told[1].sentence


def test_a_key_in_the_wrong_place() -> None:
    finding = only(with_rope() | {"attention_factor": 1.2}, "misplaced")
    assert "outside the rope parameters" in finding.sentence
    assert read(with_rope() | {"attention_factor": 1.2}).parts(0).cos_sin == pytest.approx(M4)


# rules that do nothing
@pytest.mark.parametrize(
    ("config", "phrase"),
    [
        (with_rope(factor=1.0), "factor 1"),
        (with_rope(factor=0.5), "factor 0.5"),
        (with_rope(attention_factor=1.0), "attention_factor 1"),
        (with_rope(mscale=0.7, mscale_all_dim=0.7), "mscale = mscale_all_dim"),
        ({"model_type": "llama4_text", "no_rope_layers": [1] * 48}, "no layers without rotary positions"),
        ({"model_type": "llama4_text", "attn_temperature_tuning": False}, "attn_temperature_tuning is off"),
        ({"model_type": "qwen", "use_logn_attn": False}, "use_logn_attn is off"),
        ({"model_type": "qwen", "seq_length": 32768, "max_position_embeddings": 8192}, "is 1 up to position 8191"),
        ({"model_type": "ministral3", "rope_parameters": yarn(llama_4_scaling_beta=0.0)}, "slope 0"),
        ({"architectures": ["Grok1ForCausalLM"], "attn_temperature_len": -1}, "attn_temperature_len is off"),
        (LLAMA | {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "attention_factor": 1.0}}, "has no factor"),
    ],
)
def test_a_rule_that_does_nothing(config: dict[str, Any], phrase: str) -> None:
    told = found(config, "does-nothing")
    assert any(phrase in finding.sentence for finding in told), told


def test_a_rule_that_does_something_is_not_said_to_do_nothing() -> None:
    for name in ("qwen2.5-7b-yarn", "llama-4-scout", "qwen-7b", "grok-2", "gpt-oss-20b"):
        assert not found(real(name), "does-nothing")


# parity tested at position 0 or on short prompts only
@pytest.mark.parametrize(
    ("name", "position"),
    [("llama-4-scout", 8191), ("ministral-3-8b", 16384), ("qwen-7b", 2048), ("grok-2", 1025), ("qwen2.5-7b-yarn", 0)],
)
def test_where_the_factor_first_differs_from_1(name: str, position: int) -> None:
    finding = only(real(name), "first-differs")
    assert finding.position == position
    reading = read(real(name))
    assert reading.parts(position).logit.rotary != 1 and (
        position == 0 or reading.parts(position - 1).logit.rotary == 1
    )
    assert ("cannot show whether an engine applies this" in finding.sentence) == (position > 0)
    assert not found(real("smollm2-135m"), "first-differs")


# positions taken from the cache; prefill and decode that disagree
def test_positions_from_the_cache() -> None:
    assert only(real("llama-4-scout"), "positions-from-cache").severity == "warning"
    assert not found(real("ministral-3-8b"), "positions-from-cache")


def test_prefill_and_decode_disagree() -> None:
    rope = {"type": "longrope", "original_max_position_embeddings": 4096, "short_mscale": 1.1, "long_mscale": 1.3}
    config = real("phi-3.5-moe") | {"rope_scaling": rope | {"short_factor": [1.0] * 64, "long_factor": [1.0] * 64}}
    finding = only(config, "prefill-decode")
    assert (finding.applied, finding.meant, finding.position) == (pytest.approx(1.43), pytest.approx(1.69), 4096)
    assert not found(real("phi-3.5-moe"), "prefill-decode")  # as released the two are the same


# keys that contradict each other
def test_two_tables_that_disagree() -> None:
    config = LLAMA | {"rope_scaling": yarn(4.0), "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    finding = only(config, "contradiction")
    assert "transformers takes rope_scaling" in finding.sentence and finding.severity == "error"
    assert (finding.applied, finding.meant) == (pytest.approx(M4**2), 1.0)
    same = LLAMA | {"rope_scaling": yarn(4.0) | {"type": "yarn"}, "rope_parameters": yarn(4.0, rope_theta=1e6)}
    assert not found(same, "contradiction")


def test_lengths_that_disagree_with_the_factor() -> None:
    finding = only(with_rope(factor=4.0, original=2048), "lengths-disagree")
    assert finding.severity == "warning" and "8192" in finding.sentence
    assert (finding.applied, finding.meant) == (pytest.approx(M4**2), pytest.approx(yarn_scale(8.0) ** 2))
    assert not found(with_rope(factor=4.0, original=4096), "lengths-disagree")
    assert not found(with_rope(LLAMA, factor=4.0, original=2048, attention_factor=1.1), "lengths-disagree")


def test_an_original_length_outside_the_rope_parameters() -> None:
    rope = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1.0] * 8}
    inner = LLAMA | {
        "original_max_position_embeddings": 1024,
        "rope_scaling": rope | {"original_max_position_embeddings": 4096},
    }
    assert "transformers takes the first" in only(inner, "contradiction").sentence
    assert not found(LLAMA | {"original_max_position_embeddings": 1024, "rope_scaling": rope}, "contradiction")


def test_rope_parameters_by_layer_type_that_are_lost() -> None:
    olmo = {"model_type": "olmo3", "max_position_embeddings": 32768, **SHAPE}
    old = yarn(4.0, 8192)
    del old["rope_type"]
    lost = only(olmo | {"rope_scaling": old | {"type": "yarn"}}, "type-lost")
    flat = only(olmo | {"rope_parameters": yarn(4.0, 8192)}, "flat-ignored")
    for finding in (lost, flat):
        assert (finding.severity, finding.applied, finding.meant) == ("error", 1.0, pytest.approx(M4**2))
    right = olmo | {"rope_scaling": yarn(4.0, 8192)}
    assert not found(right, "type-lost") and not found(right, "flat-ignored")
    assert read(right).parts(0, layer=3).cos_sin == pytest.approx(M4)


def test_what_transformers_refuses() -> None:
    cases = {
        "without factor": LLAMA | {"rope_parameters": {"rope_type": "yarn", "original_max_position_embeddings": 4096}},
        "'su'": {"model_type": "phi3", "rope_scaling": {"type": "su", "short_factor": [1.0], "long_factor": [1.0]}},
        "short_mscale": {
            "model_type": "phimoe",
            "rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]},
        },
        "attn_temperature_tuning 4": {"model_type": "llama4_text", "attn_temperature_tuning": 4},
        "without llama_4_scaling_beta": {"model_type": "ministral3", "rope_parameters": yarn()},
        "takes LongRoPE alone": {"model_type": "phi3", "rope_scaling": {"type": "linear", "factor": 2.0}},
    }
    for phrase, config in cases.items():
        assert any(phrase in finding.sentence for finding in found(config, "refused")), phrase
    assert read(cases["without factor"]).parts(0).cos_sin == pytest.approx(M4)  # 16384 over 4096


# where papers and code differ, and where nothing is verified
def test_the_polylog_of_yarn() -> None:
    finding = only(with_rope(), "polylog")
    assert "(ln n)²" in finding.sentence and "(1 + 0.1 ln s)²" in finding.sentence
    assert not found(with_rope(attention_factor=1.2), "polylog")


def test_swan_is_not_verified() -> None:
    assert only({"model_type": "swan_gpt"}, "unverified").severity == "warning"
    assert not read({"model_type": "swan_gpt"}).factors


def test_a_factor_that_is_0_for_a_single_key_is_told() -> None:
    assert "0 at the first token" in only({"model_type": "mistral_large4_text"}, "learned").sentence


def test_models_that_are_not_known_or_have_no_rotary_positions() -> None:
    assert "No table here" in only({"model_type": "starship"}, "unknown-model").sentence
    assert found({"rope_scaling": yarn()}, "unknown-model")
    finding = only({"model_type": "gpt2", "max_position_embeddings": 1024, "rope_scaling": yarn()}, "not-honoured")
    assert (finding.applied, finding.meant) == (1.0, pytest.approx(M4**2))
    assert read({"model_type": "gpt2", "rope_scaling": yarn()}).parts(0).logit.rotary == 1.0


def test_errors_come_first_and_nothing_is_told_twice() -> None:
    findings = read(with_rope(attn_factor=1.1) | {"use_logn_attn": True}).findings
    order = [("error", "warning", "note").index(finding.severity) for finding in findings]
    assert order == sorted(order)
    assert len({finding.sentence for finding in findings}) == len(findings)


def test_sizes_are_those_of_the_reading() -> None:
    """What a finding says is applied is what the reading gives, wherever it gives a position or none."""
    for config in (with_rope(attn_factor=1.1), with_rope(DEEPSEEK, factor=40.0), with_rope() | {"use_logn_attn": True}):
        reading = read(config)
        for finding in reading.findings:
            if math.isfinite(finding.applied) and finding.kind != "does-nothing":
                at = 0 if finding.position is None else finding.position
                assert finding.applied == pytest.approx(reading.parts(at).logit.rotary), finding


def test_ministral_reads_as_the_catalogue_has_it() -> None:
    positions = [0, 16383, 16384, 40000, 262143]
    assert (
        read(real("ministral-3-8b")).parts(positions).query.tolist()
        == ministral(16384, 0.1).parts(positions).query.tolist()
    )


def test_a_misspelt_key_of_one_layer_type() -> None:
    """Its size is that of the layers that it is for, not of all factors together."""
    both = {label: yarn(8.0, 8192) for label in ("full_attention", "sliding_attention")}
    both["full_attention"] = both["full_attention"] | {"atention_factor": 1.3}
    finding = only(
        {"model_type": "olmo3", "max_position_embeddings": 65536, **SHAPE, "rope_parameters": both}, "unknown-key"
    )
    assert (finding.applied, finding.meant) == (pytest.approx(yarn_scale(8.0) ** 2), pytest.approx(1.69))
