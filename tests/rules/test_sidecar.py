"""A rule saved beside a checkpoint and loaded again: the same logits, or a line that says why not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.rules.running import ACTING, logits, tokens
from tests.rules.test_attach import untouched

from attnlim.core.checks import InputError
from attnlim.rules import attach, attached_rule, constant, critical, detach, load, log_slope, logn, save, ssmax

RULES = {
    "ssmax": ssmax(np.arange(12.0).reshape(3, 4) / 10, 0.2),
    "constant": constant([0.5, 1.0, 1.5, 2.0]),
    "two": logn(4) * log_slope(4, [0.1, 0.2, 0.3, 0.4]),
    "critical": critical(4, 0.5),
}


def changed(model: Any) -> None:
    """Learned parameters other than those that the rule began with."""
    with torch.no_grad():
        for name, one in model.named_parameters():
            if "attnlim_rule" in name:
                one.add_(torch.linspace(0.01, 0.1, 4) * (1 + int(name.split(".")[2])))


@pytest.mark.parametrize("name", RULES)
def test_round_trip(name: str, tmp_path: Path, tiny: Any) -> None:
    model, other = tiny("llama"), tiny("llama")
    attach(model, RULES[name])
    changed(model)
    wanted = logits(model, tokens(1, 30))
    assert save(model, tmp_path / "checkpoint") == tmp_path / "checkpoint" / "attnlim" / "rule.json"
    told = load(other, tmp_path / "checkpoint")
    assert torch.equal(logits(other, tokens(1, 30)), wanted)
    assert told.name == RULES[name].name
    assert [one.source for one in told.factors] == [one.source for one in RULES[name].factors]
    for mine, its in zip(attached_rule(model).factors, told.factors, strict=True):  # type: ignore[union-attr]
        for key, value in mine.parameters.items():
            np.testing.assert_array_equal(its.parameters[key], value)
    kept = {path.suffix for path in (tmp_path / "checkpoint" / "attnlim").iterdir()}
    assert kept == ({".json"} if name == "constant" else {".json", ".safetensors"})


def test_beside_the_model_that_transformers_saves(tmp_path: Path, tiny: Any) -> None:
    from transformers import AutoModel, AutoModelForCausalLM

    model = tiny("llama")
    attach(model, ssmax())
    changed(model)
    model.save_pretrained(tmp_path)
    save(model, tmp_path)
    assert "attnlim" not in (tmp_path / "config.json").read_text()
    for loader in (AutoModelForCausalLM, AutoModel):  # with the head and without: other names of the same layers
        again = loader.from_pretrained(tmp_path).eval()
        assert again.config._attn_implementation == "sdpa"
        load(again, tmp_path)
        wanted = logits(model if loader is AutoModelForCausalLM else model.model, tokens(1, 20))
        torch.testing.assert_close(logits(again, tokens(1, 20)), wanted, rtol=0, atol=1e-6)


def test_saving_again_replaces_and_a_killed_saving_leaves_the_old(
    tmp_path: Path, tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, other = tiny("llama"), tiny("llama")
    attach(model, ssmax())
    save(model, tmp_path)
    old = logits(model, tokens(1, 20))
    changed(model)

    rename = os.replace

    def killed(source: Any, target: Any) -> None:
        if str(target).endswith("rule.json"):
            raise KeyboardInterrupt
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            save(model, tmp_path)
    load(other, tmp_path)
    assert torch.equal(logits(other, tokens(1, 20)), old)
    detach(other)
    save(model, tmp_path)
    load(other, tmp_path)
    assert torch.equal(logits(other, tokens(1, 20)), logits(model, tokens(1, 20)))
    assert len(list((tmp_path / "attnlim").iterdir())) == 2


def test_what_it_was_attached_with_is_kept(tmp_path: Path, tiny: Any) -> None:
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    def scaled() -> Any:
        torch.manual_seed(0)
        rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
        config = CONFIG_MAPPING["llama"](
            vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
            max_position_embeddings=256, rope_parameters=rope, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        )  # fmt: skip
        return AutoModelForCausalLM.from_config(config).eval()

    model, other = scaled(), scaled()
    attach(model, ACTING, on_top=True)
    save(model, tmp_path)
    with pytest.raises(InputError, match="scales its logits already"):
        load(other, tmp_path, on_top=False)
    load(other, tmp_path, trainable=False)
    assert torch.equal(logits(other, tokens(1, 20)), logits(model, tokens(1, 20)))
    assert not any(one.requires_grad for name, one in other.named_parameters() if "attnlim_rule" in name)


def damaged(told: dict[str, Any], how: str) -> None:
    factor = told["rule"]["factors"][0]
    if how == "version":
        told["version"] = 2
    elif how == "format":
        told["format"] = "another"
    elif how == "function":
        factor["function"] = "yarn_scale"
    elif how == "foreign function":
        factor["function"] = "system"
    elif how == "parameter":
        factor["parameters"]["other"] = 1.0
    elif how == "text":
        factor["parameters"]["scale"] = "1.0"
    elif how == "heads":
        told["heads"]["2"] = 8
    elif how == "layers":
        told["heads"]["3"] = 4
    elif how == "lacking":
        del told["heads"]
    elif how == "place":
        factor["place"] = "key"
    elif how == "learned":
        factor["learned"] = ["scale"]
    elif how == "hash":
        told["parameters"]["sha256"] = "0" * 64
    elif how == "outside":
        told["parameters"]["file"] = "../../secret.safetensors"


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("version", "is of version 2, this attnlim reads 1"),
        ("format", "is no rule of attnlim"),
        ("function", "unknown function 'yarn_scale'"),
        ("foreign function", "unknown function 'system'; known are"),
        ("parameter", "must have the parameters scale, got bias, other, scale"),
        ("text", "scale of the factor 'ssmax' must be a finite number"),
        ("heads", "holds a rule for 3 layers of 4/8 query heads"),
        ("layers", "holds a rule for 4 layers of 4 query heads"),
        ("lacking", "lacks heads"),
        ("place", "unknown place 'key'"),
        ("learned", r"the learned parameters do not fit the rule \(0.0.bias\)"),
        ("hash", "is not the file that rule.json was written with"),
        ("outside", "secret.safetensors does not exist, and rule.json names it"),
    ],
)
def test_files_that_do_not_fit(how: str, complaint: str, tmp_path: Path, tiny: Any) -> None:
    model = tiny("llama")
    attach(model, ssmax())
    path = save(model, tmp_path)
    detach(model)
    told = json.loads(path.read_text())
    damaged(told, how)
    path.write_text(json.dumps(told))
    before = untouched(model)
    with pytest.raises(InputError, match=complaint):
        load(model, tmp_path)
    assert untouched(model) == before


def test_folders_without_a_rule_and_models_that_differ(tmp_path: Path, tiny: Any) -> None:
    model = tiny("llama")
    with pytest.raises(InputError, match="does not exist; give the folder that attnlim.rules.save was given"):
        load(model, tmp_path)
    with pytest.raises(InputError, match="has no rule attached, so there is none to save"):
        save(model, tmp_path)
    assert list(tmp_path.iterdir()) == []
    attach(model, ssmax())
    save(model, tmp_path)
    with pytest.raises(InputError, match="which would act twice"):
        load(model, tmp_path)
    (tmp_path / "attnlim" / "rule.json").write_text("{")
    with pytest.raises(InputError, match="is no JSON"):
        load(model, tmp_path)


def test_parameters_with_nan(tmp_path: Path, tiny: Any) -> None:
    model, other = tiny("llama"), tiny("llama")
    attach(model, ssmax())
    with torch.no_grad():
        model.model.layers[1].self_attn.attnlim_rule.scale[2] = float("nan")
    save(model, tmp_path)
    before = untouched(other)
    with pytest.raises(InputError, match="the learned parameters 1.0.scale hold NaN or infinity"):
        load(other, tmp_path)
    assert untouched(other) == before
