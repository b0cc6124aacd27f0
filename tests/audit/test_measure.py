"""The audit as a function: what comes back, that it repeats, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr

from attnlim.audit import audit
from attnlim.audit.probing import anatomy, probe
from attnlim.audit.sampling import sample_rows
from attnlim.audit.tables import compare, head_table, layer_table
from attnlim.core.checks import InputError
from attnlim.core.seeds import generator
from attnlim.models import Text, cut_windows, read_text


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = Tokenizer(models.WordLevel({"[UNK]": 1} | {chr(32 + i): i + 2 for i in range(95)}, unk_token="[UNK]"))
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=letters, unk_token="[UNK]")


def small(model: Any, tokenizer: Any, **settings: Any) -> Any:
    return audit(model, tokenizer, None, **{"contexts": (32, 128), "n_windows": 3, "n_rows": 40, **settings})


def test_numbers_are_those_of_the_probe(tiny: Any, tokenizer: Any) -> None:
    """The entropy at a context is the mean over windows of the mean over rows that see more than half of it."""
    model = tiny("llama")
    data = small(model, tokenizer).dataset
    windows = cut_windows(tokenizer, read_text(None), 3, 128)
    parts = anatomy(model, windows.ids(0, 8))
    means, cosines = [], []
    for window in range(3):
        rows = torch.from_numpy(sample_rows(128, 40, True, generator(0, "rows", 128, window)))
        found = probe(model, windows.ids(window, 128), rows, parts)
        late = found.visible[2][0] > 64
        means.append(found.statistics[2][0]["entropy"][1, late].mean())
        cosines.append(found.rho_input[2][0])
    assert float(data["entropy"].sel(context=128, layer=2, head=1)) == pytest.approx(float(np.mean(means)), rel=1e-12)
    assert float(data["rho_input"].sel(context=128, layer=2)) == pytest.approx(np.mean(cosines), rel=1e-12)
    assert float(data["gamma_c"].sel(context=128, layer=2)) == pytest.approx(
        np.mean(1 / (1 - np.array(cosines))), rel=1e-12
    )


def test_the_same_seed_repeats_and_another_looks_at_other_rows(tiny: Any, tokenizer: Any) -> None:
    model = tiny("gpt2")
    first, again, other = (small(model, tokenizer, seed=seed).dataset for seed in (0, 0, 1))
    xr.testing.assert_identical(first, again)
    assert not np.allclose(first["entropy"], other["entropy"])
    # other rows of the same windows: a sampling difference, not another answer
    np.testing.assert_allclose(first["entropy"], other["entropy"], atol=0.3)
    assert first["rho_input"].equals(other["rho_input"])


def test_a_windowed_layer_says_so(tiny: Any, tokenizer: Any) -> None:
    result = small(tiny("mistral"), tokenizer)
    assert result.dataset["sliding_window"].values.tolist() == [24, 24, 24]
    assert "At 128 tokens no layer sees the whole context" in result.verdict
    assert "12 heads in layers that see at most 24 tokens are not counted." in result.verdict
    assert (result.dataset["phase"].sel(context=128) == -1).all()
    visible = np.exp(result.dataset["sample_log_visible"].sel(context=128, octave=0))
    assert float(visible.max()) <= 24.0 + 1e-9


def test_an_encoder_takes_kappa_from_contexts(tiny: Any, tokenizer: Any) -> None:
    data = small(tiny("bert"), tokenizer).dataset
    assert data.attrs["causal"] == 0
    assert np.isnan(data["kappa"].sel(context=32)).all()
    assert np.isfinite(data["kappa"].sel(context=128)).all()
    alone = small(tiny("bert"), tokenizer, contexts=(128,)).verdict
    assert "no head could be placed" in alone
    assert "One context cannot say" in alone


def test_a_model_object_comes_back_as_it_was(tiny: Any, tokenizer: Any) -> None:
    model = tiny("qwen3")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    result = small(model, tokenizer, name="my model", note="untrained")
    assert model.config._attn_implementation == "sdpa"
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())
    assert result.dataset.attrs["model"] == "my model"
    assert repr(result).startswith("AuditResult of my model (2 contexts, 3 layers, 4 heads)")


def test_tables(tiny: Any, tokenizer: Any) -> None:
    data = small(tiny("llama"), tokenizer).dataset
    layers = layer_table(data)
    assert layers["layer"].tolist() == [0, 1, 2]
    assert (layers[["diluted", "sparse", "frozen", "undecided"]].sum(axis=1) == 4).all()
    assert (layers["tokens_low"] <= layers["tokens_median"]).all()
    assert len(head_table(data)) == 2 * 3 * 4
    sheet = compare(data, data)
    same = sheet.dropna()
    assert (same["first"] == same["second"]).all()
    moved = sheet[sheet["quantity"].str.startswith("heads whose")]
    assert moved["first"].isna().all()
    assert (moved["second"] == 0).all()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"contexts": ()}, "--context needs at least one length"),
        ({"contexts": (8,)}, "--context must be a whole number of at least 16, got 8"),
        ({"contexts": (32.5,)}, "--context must be a whole number of at least 16, got 32.5"),
        ({"contexts": (512,)}, "context 512 is beyond the 256 positions"),
        ({"n_windows": 0}, "--windows must be"),
        ({"n_rows": 0}, "--rows must be"),
        ({"seed": -1}, "--seed must be"),
        ({"k_min": 1}, "--k-min must be"),
        ({"diluted_above": float("nan")}, "--diluted-above must be a finite number"),
        ({"frozen_below": 0.9}, "--frozen-below must be a finite number below 0.8"),
        ({"text": "too short"}, "need a text of"),
    ],
)
def test_bad_input(settings: dict[str, Any], match: str, tiny: Any, tokenizer: Any) -> None:
    with pytest.raises(InputError, match=match):
        audit(tiny("llama"), tokenizer, **{"text": Text("letters", "abc " * 999), "contexts": (32, 64), **settings})


def test_what_multiplies_logits_already_is_kept(tiny: Any, minilm: Any) -> None:
    from attnlim.audit.measure import _applied
    from attnlim.rules import attach, constant

    model = tiny("llama")
    assert _applied(model, 64) == "The config applies no scaling rule: logits are q·k/√d at every length."
    attach(model, constant(1.2))
    assert _applied(model, 64).endswith("The rule 'constant' is attached on top of it.")
    model.config.rope_parameters = {
        "rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 64,
    }  # fmt: skip
    assert "multiplies logits by 1.296 at 64 tokens" in _applied(model, 64)
