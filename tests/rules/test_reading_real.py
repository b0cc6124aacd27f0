"""Real models' configurations against transformers' own modules, and the exact numbers of what they are known to apply."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from tests.rules.real_configs import (
    ELSEWHERE,
    FOLDER,
    IN_TRANSFORMERS,
    NAMES,
    as_told,
    attention,
    real,
    rotary_amplitude,
    transformers_config,
)

from attnlim.rules import Reading, Rule, read

POSITIONS = [0, 1, 4095, 4096, 40000]
# transformers has cos and sin in float32, whose squares add up to 1 within a few units of 6e-8
FLOAT32 = 3e-7


@as_told
@pytest.mark.parametrize("name", IN_TRANSFORMERS)
def test_cos_and_sin_have_the_amplitude_of_transformers(name: str) -> None:
    config, reading = transformers_config(real(name)), read(real(name))
    labels = [None] if "rope_type" in config.rope_parameters else sorted(set(config.layer_types))
    for label in labels:
        layer = None if label is None else config.layer_types.index(label)
        measured = rotary_amplitude(config, POSITIONS, label).numpy()
        ours = reading.parts(POSITIONS, layer=layer).cos_sin
        np.testing.assert_allclose(ours, measured, rtol=FLOAT32, err_msg=f"{name} {label}")


@as_told
@pytest.mark.parametrize("name", sorted(set(IN_TRANSFORMERS) - {"modernbert-base"}))
def test_the_softmax_scale_is_that_of_transformers(name: str) -> None:
    config, reading = transformers_config(real(name)), read(real(name))
    assert reading.head_dim is not None and reading.n_layers is not None
    for layer in (0, reading.n_layers - 1):
        factor = attention(config, layer).scaling * math.sqrt(reading.head_dim)
        assert reading.parts(100, layer=layer).softmax == pytest.approx(factor, rel=1e-12)


@as_told
@pytest.mark.parametrize("name", IN_TRANSFORMERS)
def test_the_shape_is_that_of_transformers(name: str) -> None:
    config, reading = transformers_config(real(name)), read(real(name))
    assert (reading.n_layers, reading.n_heads) == (config.num_hidden_layers, config.num_attention_heads)
    assert reading.declared_length == config.max_position_embeddings
    windowed = {layer for kind in reading.kinds if kind.window is not None for layer in kind.layers}
    still = {layer for kind in reading.kinds if not kind.rotary for layer in kind.layers}
    if getattr(config, "layer_types", None):
        assert windowed == {n for n, label in enumerate(config.layer_types) if label != "full_attention"}
    if getattr(config, "no_rope_layers", None):
        assert still == {n for n, flag in enumerate(config.no_rope_layers) if not flag}
    elif config.model_type == "cohere2":
        assert still == {n for n, label in enumerate(config.layer_types) if label == "full_attention"}
    else:
        assert not still
    covered = sorted(layer for kind in reading.kinds for layer in kind.layers)
    assert covered == list(range(config.num_hidden_layers))


# model, position, cos/sin, softmax, query, where the rule acts: the numbers of the formulas' page
EXACT = {
    "llama-3.1-8b": [(131071, 1.0, 1.0, 1.0)],
    "llama-4-scout": [(8190, 1.0, 1.0, 1.0), (8191, 1.0, 1.0, 1.0693), (16383, 1.0, 1.0, 1.1099)],
    "qwen-7b": [(2047, 1.0, 1.0, 1.0), (8191, 1.0, 1.0, math.log(8192) / math.log(2048))],
    "qwen2.5-7b-yarn": [(0, 1.13863, 1.0, 1.0), (131071, 1.13863, 1.0, 1.0)],
    "qwen3-8b-yarn": [(0, 1.13863, 1.0, 1.0)],
    "phi-3-mini-128k": [(0, 1.19024, 1.0, 1.0)],
    "phi-3.5-moe": [(0, 1.243163, 1.0, 1.0), (4096, 1.243163, 1.0, 1.0)],
    "deepseek-v2-lite": [(0, 1.0, 1.5896, 1.0)],
    "deepseek-v3": [(0, 1.0, 1.8739, 1.0)],
    "ministral-3-8b": [(16383, 1.0, 1.0, 1.0), (16384, 1.0, 1.0, 1.06931), (131072, 1.0, 1.0, 1.21972)],
    "mistral-4": [(8191, 1.0, 1.48520**2, 1.0), (8192, 1.0, 1.48520**2, 1.06931)],
    "gpt-oss-20b": [(0, 1.34657, 1.0, 1.0)],
    "grok-2": [(1024, 1.0, 1.0, 1.0), (2048, 1.0, 1.0, 1.1), (131072, 1.0, 1.0, 1.7)],
    "gemma-3-4b": [(131071, 1.0, 1.0, 1.0)],
    "olmo-3-7b": [(0, 1.2079441541679836, 1.0, 1.0)],
    "smollm2-135m": [(8191, 1.0, 1.0, 1.0)],
    "smollm3-3b": [(65535, 1.0, 1.0, 1.0)],
    "minicpm3-4b": [(32767, 1.0, 1.0, 1.0)],
    "command-r7b": [(131071, 1.0, 1.0, 1.0)],
    "modernbert-base": [(8191, 1.0, 1.0, 1.0)],
}


@pytest.mark.parametrize("name", NAMES)
def test_exact_numbers(name: str) -> None:
    reading = read(FOLDER / f"{name}.json")
    assert isinstance(reading, Rule) and isinstance(reading, Reading)
    for position, cos_sin, softmax, query in EXACT[name]:
        parts = reading.parts(position)
        # the page has four to five decimals
        assert (parts.cos_sin, parts.softmax, parts.query) == pytest.approx((cos_sin, softmax, query), abs=5.1e-5)
        assert parts.logit.other == pytest.approx(parts.softmax * parts.query)
        assert parts.logit.rotary == pytest.approx(parts.cos_sin**2 * parts.softmax * parts.query)


@pytest.mark.parametrize(
    ("factor", "m"),
    [(4, 1.13863), (16, 1.27726), (32, 1.34657), (40, 1.36889), (64, 1.41589), (128, 1.48520)],
)
def test_yarn_by_factor(factor: float, m: float) -> None:
    table = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": 4096}
    for key in ("rope_scaling", "rope_parameters"):
        reading = read({"model_type": "llama", "max_position_embeddings": 4096 * factor, key: table})
        assert reading.parts(0).cos_sin == pytest.approx(m, abs=5e-6)
        assert reading.parts(7).logit.rotary == reading.parts(0).cos_sin ** 2


def test_longrope_by_lengths() -> None:
    parts = read(real("phi-3-mini-128k")).parts(0)
    assert parts.cos_sin == pytest.approx(1.19024, abs=5e-6)
    assert parts.logit.rotary == pytest.approx(math.log(131072) / math.log(4096)) == pytest.approx(1.41667, abs=5e-6)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_models_that_transformers_lacks_say_whose_code_is_read(name: str) -> None:
    reading = read(FOLDER / f"{name}.json")
    assert reading.applied_by != "transformers"
    assert [finding.kind for finding in reading.findings].count("not-in-transformers") == 1


def test_qwen_1_as_its_own_table_has_it() -> None:
    """The list of factors that its code keeps, entry i for the query at position i."""
    length = 2048
    table = [math.log(i, length) if i > length else 1 for i in range(1, 32768)]
    ours = read(FOLDER / "qwen-7b.json").parts(np.arange(len(table))).query
    np.testing.assert_allclose(ours, table, rtol=1e-12)


def test_reading_is_instant_and_imports_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, json; from attnlim.rules import read, applied, compare\n"
        f"for name in {NAMES!r}: applied(read({str(FOLDER)!r} + f'/{{name}}.json'), 8192)\n"
        "assert not {'torch', 'transformers', 'xarray', 'gguf'} & set(sys.modules), sorted(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_sources_are_alike(tmp_path: object) -> None:
    """A dictionary, a path and a folder give the same rule."""
    from pathlib import Path

    folder = Path(str(tmp_path)) / "ministral"
    folder.mkdir()
    text = (FOLDER / "ministral-3-8b.json").read_text()
    (folder / "config.json").write_text(text)
    one, two, three = read(json.loads(text)), read(folder), read(str(folder / "config.json"))
    assert one.factors[1].parameters == two.factors[1].parameters == three.factors[1].parameters
    assert (one.title, two.title, three.title) == ("ministral3", "ministral", "ministral")
    assert [f.sentence for f in one.findings] == [f.sentence for f in two.findings]
