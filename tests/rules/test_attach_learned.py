"""Learned parameters of an attached rule: they are the model's, train, stay in float32, and go with the rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.rules.running import left_padded, logits, tokens

from attnlim.models.hook import AttentionCall, attached
from attnlim.rules import Rule, attach, attached_rule, constant, critical, detach, log_slope, logn, ssmax

RULES = {
    "ssmax": ssmax(0.43, 0.1),
    "critical": critical(4, [0.3, 0.5, 0.7, 0.9]),
    "log slope": log_slope(4, 0.2) * logn(6),
}


def loss(model: Any) -> torch.Tensor:
    ids, mask = left_padded([tokens(1, 20, 0)[0], tokens(1, 14, 1)[0]])
    made = model(input_ids=ids, attention_mask=mask, use_cache=False)[0]
    weights = torch.linspace(
        -1.0, 1.0, made.shape[-1], dtype=made.dtype
    )  # an encoder's outputs have a norm that is fixed
    return (made[mask.bool()] * weights).sum(dim=-1).square().mean()


def _norm(self: Any, hidden: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = (
        self.weight * hidden * (hidden.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()
    )
    return found


def rule_parameters(model: Any) -> dict[str, torch.Tensor]:
    return {name: one for name, one in model.named_parameters() if "attnlim_rule" in name}


@pytest.mark.parametrize("kind", ["llama", "mistral", "gpt2", "bert"])
@pytest.mark.parametrize("name", RULES)
def test_gradients_equal_finite_differences(kind: str, name: str, tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64, so that central differences with a step of 1e-5 are good to 1e-10 of a loss of some hundreds."""
    model = tiny(kind).double()
    if kind in ("llama", "mistral"):  # its own norm goes through float32
        monkeypatch.setattr(type(model.model.norm), "forward", _norm)
    attach(model, RULES[name])
    model.double()  # the rule's parameters follow to a wider type
    found = rule_parameters(model)
    assert len(found) == 3 * len([one for factor in RULES[name].factors for one in factor.learned])
    loss(model).backward()
    some = 0.0
    for parameter in found.values():
        assert parameter.shape == (4,) and parameter.dtype == torch.float64
        for head in (0, 3):
            with torch.no_grad():
                ends = []
                for step in (1e-5, -2e-5):
                    parameter[head] += step
                    ends.append(float(loss(model)))
                parameter[head] += 1e-5
            assert float(parameter.grad[head]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-7)
            some = max(some, abs(float(parameter.grad[head])))
    assert some > 0.1


def test_names_values_and_detaching(tiny: Any) -> None:
    model = tiny("llama")
    before = [name for name, _ in model.named_parameters()]
    table = np.arange(12.0).reshape(3, 4)
    attach(model, constant([1.0, 2.0, 1.0, 1.0]) * ssmax(table))
    found = rule_parameters(model)
    assert list(found) == [
        f"model.layers.{layer}.self_attn.attnlim_rule.{name}" for layer in range(3) for name in ("scale_1", "bias_1")
    ]
    for layer in range(3):
        assert found[f"model.layers.{layer}.self_attn.attnlim_rule.scale_1"].tolist() == table[layer].tolist()
    assert not [name for name in model.state_dict() if "value" in name]  # constants are no weights
    told = attached_rule(model)
    assert told is not None and told.factors[1].parameters["scale"].tolist() == table.tolist()
    detach(model)
    assert [name for name, _ in model.named_parameters()] == before
    assert [name for name in model.state_dict() if "attnlim" in name] == []


def test_training_moves_them_and_the_loss_falls(tiny: Any) -> None:
    model = tiny("llama")
    attach(model, ssmax(1.0))
    for name, one in model.named_parameters():
        one.requires_grad_("attnlim_rule" in name)
    optimiser = torch.optim.SGD(rule_parameters(model).values(), lr=1e-3)
    losses = []
    for _ in range(8):
        optimiser.zero_grad()
        now = loss(model)
        now.backward()
        optimiser.step()
        losses.append(float(now.detach()))
    assert losses[-1] < losses[0]
    told = attached_rule(model)
    assert told is not None
    scale = told.factors[0].parameters["scale"]
    assert scale.shape == (3, 4) and (scale != 1.0).all()
    # what is told is what acts: the same rule with those numbers as constants gives the same logits
    wanted = logits(model, tokens(1, 20))
    detach(model)
    attach(model, told, trainable=False)
    torch.testing.assert_close(logits(model, tokens(1, 20)), wanted, rtol=0, atol=1e-6)


def test_not_to_be_trained(tiny: Any) -> None:
    model = tiny("llama")
    attach(model, log_slope(4, 0.0), trainable=False)
    assert not any(one.requires_grad for one in rule_parameters(model).values())
    detach(model)
    attach(model, log_slope(4, 0.0))  # its factor is 1, and yet gradients have to pass
    loss(model).backward()
    assert all(bool((one.grad != 0).any()) for one in rule_parameters(model).values())


def test_float32_is_kept(tiny: Any) -> None:
    model = tiny("llama")
    attach(model, ssmax(0.43) * constant([1.0, 1.1, 1.2, 1.3]))
    for narrow in (torch.bfloat16, torch.float16):
        model.to(narrow)
        assert model.lm_head.weight.dtype == narrow
        assert {one.dtype for one in rule_parameters(model).values()} == {torch.float32}
        assert float(rule_parameters(model)["model.layers.0.self_attn.attnlim_rule.scale"][0].detach()) == np.float32(
            0.43
        )
    seen: list[AttentionCall] = []
    model.to(torch.bfloat16)
    with attached(model, seen.append):
        logits(model, tokens(1, 12))
    assert seen[0].query.dtype == torch.bfloat16
    moved = model.to("meta")
    assert {one.device.type for one in rule_parameters(moved).values()} == {"meta"}


def test_a_checkpoint_of_the_whole_state(tiny: Any) -> None:
    """What a trainer saves and loads holds the rule's parameters too."""
    model, other = tiny("llama"), tiny("llama")
    attach(model, ssmax(0.7))
    attach(other, ssmax(0.1))
    other.load_state_dict(model.state_dict())
    assert torch.equal(logits(other, tokens(1, 20)), logits(model, tokens(1, 20)))


def test_a_layer_without_the_rule_has_none_of_its_parameters(tiny: Any) -> None:
    from dataclasses import replace

    model = tiny("gemma3")
    attach(model, Rule("global", (replace(ssmax().factors[0], kind="global"),)))
    assert {name.split(".")[2] for name in rule_parameters(model)} == {"1"}
    told = attached_rule(model)
    assert told is not None
    assert np.isnan(told.factors[0].parameters["scale"][0]).all()
    assert told.parts(9, layer=1).query.shape == (4,)


def test_offloaded_weights(tiny: Any) -> None:
    """accelerate keeps the weights on no device until a layer runs; the rule's stay where they can be used."""
    import accelerate

    model = tiny("llama")
    attach(model, ssmax(0.7))
    wanted = logits(model, tokens(1, 20))
    detach(model)
    model = accelerate.cpu_offload(model, execution_device="cpu")
    assert {one.device.type for one in model.parameters()} == {"meta"}
    attach(model, ssmax(0.7))
    assert {one.device.type for one in rule_parameters(model).values()} == {"cpu"}
    assert torch.equal(logits(model, tokens(1, 20)), wanted)
