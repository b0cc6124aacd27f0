"""GGUF files: what transformers' loader keeps of them, and what it drops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.rules.real_configs import as_told
from tests.rules.test_reading_bad_input import gguf_file

from attnlim.rules import Finding, read
from attnlim.rules.factors import yarn_scale

YARN: dict[str, Any] = {
    "rope__scaling__type": "yarn", "rope__scaling__factor": 4.0, "rope__scaling__original_context_length": 32768,
}  # fmt: skip


def only(path: Path, kind: str) -> Finding:
    (finding,) = [finding for finding in read(path).findings if finding.kind == kind]
    return finding


def test_the_reading_is_what_transformers_loads(tmp_path: Path) -> None:
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    path = gguf_file(tmp_path / "model.gguf", tokens=20, **YARN)
    config = load_gguf_checkpoint(str(path))["config"]
    assert "rope_scaling" not in config and "rope_parameters" not in config
    reading = read(path)
    assert (reading.n_layers, reading.n_heads, reading.head_dim, reading.declared_length) == (
        config["num_hidden_layers"], config["num_attention_heads"], config["head_dim"], config["max_position_embeddings"],
    )  # fmt: skip
    assert (reading.title, reading.model_type) == ("model", config["model_type"])
    assert reading.parts(100000).logit.rotary == 1.0


def test_dropped_scaling_with_its_size(tmp_path: Path) -> None:
    finding = only(gguf_file(tmp_path / "model.gguf", **YARN), "gguf-dropped")
    assert finding.severity == "error" and "rope.scaling.type, rope.scaling.factor" in finding.sentence
    assert (finding.applied, finding.meant) == (1.0, pytest.approx(yarn_scale(4.0) ** 2))
    plain = read(gguf_file(tmp_path / "plain.gguf"))
    assert not plain.findings


def test_the_multiplier_of_llama_cpp(tmp_path: Path) -> None:
    finding = only(gguf_file(tmp_path / "model.gguf", **YARN, rope__scaling__attn_factor=1.5), "gguf-dropped")
    assert finding.meant == pytest.approx((1.5 * yarn_scale(4.0)) ** 2)


def test_linear_scaling_changes_no_logit_but_is_dropped(tmp_path: Path) -> None:
    file = gguf_file(tmp_path / "model.gguf", rope__scaling__type="linear", rope__scaling__factor=8.0)
    assert only(file, "gguf-dropped").severity == "warning"


def test_an_architecture_that_transformers_does_not_load(tmp_path: Path) -> None:
    """DeepSeek's: YaRN with 0.1 mscale_all_dim as its log multiplier."""
    scaling = {**YARN, "rope__scaling__factor": 40.0, "rope__scaling__yarn_log_multiplier": 0.0707}
    file = gguf_file(tmp_path / "model.gguf", "deepseek2", **scaling, attention__key_length=24)
    reading = read(file)
    assert only(file, "not-in-transformers").severity == "warning"
    # the multiplier is kept in float32
    assert reading.parts(0).softmax == pytest.approx(1.5896, abs=1e-4) and reading.parts(0).cos_sin == 1.0
    assert (reading.rotary_dim, reading.head_dim) == (8, 24)


@as_told
def test_gpt_oss_fails_in_transformers_and_is_read_as_declared(tmp_path: Path) -> None:
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    file = gguf_file(tmp_path / "model.gguf", "gpt-oss", tokens=20, **YARN)
    with pytest.raises(TypeError):  # it takes the length of a key's name for its value
        load_gguf_checkpoint(str(file))
    assert read(file).parts(0).cos_sin == pytest.approx(yarn_scale(4.0))


def test_rules_on_the_query(tmp_path: Path) -> None:
    llama = read(
        gguf_file(tmp_path / "a.gguf", "llama4", attention__temperature_length=4096, attention__temperature_scale=0.2)
    )
    assert llama.parts(4095).query == pytest.approx(1 + 0.2 * 0.6931471805599453, rel=1e-6)
    ministral = read(gguf_file(tmp_path / "b.gguf", "mistral3", **YARN, attention__temperature_scale=0.1))
    assert ministral.parts(32768).query == pytest.approx(1.0693147)
    assert read(gguf_file(tmp_path / "c.gguf", "grok", attention__temperature_length=1024)).parts(
        2048
    ).query == pytest.approx(1.1)


def test_the_file_of_the_default_model() -> None:
    from attnlim.models.catalog import known_model
    from attnlim.models.fetching import fetched_folder

    folder = fetched_folder(known_model("smollm2"))
    if folder is None:
        pytest.skip("smollm2 is not fetched")
    reading = read(folder)
    assert (reading.n_layers, reading.n_heads, reading.head_dim, reading.trained_length) == (30, 9, 64, 8192)
    assert not reading.factors and not reading.findings
