"""The verdict says what the numbers say: each sentence turns when its numbers do."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr

from attnlim.audit.wording import phase_counts, verdict

CONTEXTS, N_LAYERS, N_HEADS = [512, 8192], 6, 4


def audit_dataset() -> xr.Dataset:
    """A calm audit: sparse heads, a weak sink, tokens that stay apart."""
    shape = (2, N_LAYERS, N_HEADS)
    head = ("context", "layer", "head")
    per_head = {
        "entropy": 3.0, "perplexity": 40.0, "perplexity_no_sink": 50.0, "sink_mass": 0.05, "kappa": 0.5, "kappa_low": 0.45,
        "kappa_high": 0.55, "critical_multiplier": 1.2, "largest_logit": 12.0,
    }  # fmt: skip
    data = xr.Dataset(
        {name: (head, np.full(shape, value)) for name, value in per_head.items()}
        | {name: (head, np.full(shape, 1, dtype=np.int8)) for name in ("phase", "phase_no_sink")}
        | {f"kappa_contexts{end}": (("layer", "head"), np.full(shape[1:], value)) for end, value in (("_low", 0.4), ("_high", 0.6))}
        | {
            "sample_rho_residual": (("context", "window", "depth"), np.full((2, 4, N_LAYERS + 1), 0.1)),
            "most_visible": (("context", "layer"), np.repeat(np.array(CONTEXTS)[:, None], N_LAYERS, axis=1)),
            "gamma_c": (("context", "layer"), np.full((2, N_LAYERS), 1.5)),
            "softcap": ("layer", np.full(N_LAYERS, np.nan)),
        },
        coords={"context": CONTEXTS, "layer": np.arange(N_LAYERS), "head": np.arange(N_HEADS)},
        attrs={"diluted_above": 0.8, "frozen_below": 0.2, "n_windows": 4, "windows_in_text": 13, "kappa_source": "positions", "skipped": "[]"},
    )  # fmt: skip
    return data


def test_a_calm_model_needs_nothing() -> None:
    text = verdict(audit_dataset())
    assert "At 8192 tokens, of 24 heads 0 diluted, 24 sparse, 0 frozen and 0 undecided." in text
    assert "At 512 tokens it was 0 diluted, 24 sparse, 0 frozen, 0 undecided." in text
    assert (
        "The first token takes 5.0 % of all attention (5.0 % at 512 tokens); no head gives it more than half." in text
    )
    assert "Tokens come together neither with depth nor with length." in text
    assert "Nothing here asks for another attention scaling up to 8192 tokens." in text
    assert "disagree" not in text


def test_diluted_heads_are_counted_placed_and_answered() -> None:
    data = audit_dataset()
    data["phase"][1, 1:3] = 0
    data["kappa"][1, 1:3] = 0.95
    text = verdict(data)
    assert "8 diluted (4 of them in layer 1), 16 sparse" in text
    assert "compare a logit factor of ln n/ln 8192 on the diluted heads" in text
    assert phase_counts(data, 8192) == {
        "diluted": 8,
        "sparse": 16,
        "frozen": 0,
        "undecided": 0,
        "unmeasured": 0,
        "bounded": 0,
    }


def test_a_few_heads_are_named() -> None:
    data = audit_dataset()
    data["phase"][1, 0, 3] = data["phase"][1, 5, 1] = 0
    assert "2 diluted (layer.head 0.3, 5.1), 22 sparse" in verdict(data)


def test_frozen_heads_and_where_most_of_them_are() -> None:
    data = audit_dataset()
    data["phase"][1, :, 0] = 2
    data["phase"][1, 4, :] = 2
    text = verdict(data)
    assert "9 frozen (5 of them in layers 3–4)" in text or "9 frozen (5 of them in layers 4–5)" in text
    assert "on the frozen heads" in text


@pytest.mark.parametrize(
    ("depth", "length", "spread", "sentence"),
    [
        (
            0.6,
            0.0,
            0.0,
            "Tokens come together with depth, hardly with length: this is depth collapse, not length collapse.",
        ),
        (0.0, 0.3, 0.0, "Tokens come together with length, hardly with depth: this is length collapse."),
        (0.6, 0.3, 0.0, "Tokens come together with depth and with length."),
        (
            0.6,
            0.1,
            0.2,
            "Tokens come together with depth; whether with length too, these windows do not tell.",
        ),
    ],
)
def test_collapse_is_told_apart(depth: float, length: float, spread: float, sentence: str) -> None:
    data = audit_dataset()
    data["sample_rho_residual"][:] = 0.1 + depth * np.linspace(0, 1, N_LAYERS + 1)
    # windows that disagree about the length leave it open
    data["sample_rho_residual"][1] += (length + spread * np.array([-1, 1, -1, 1]))[:, None]
    text = verdict(data)
    assert sentence in text
    half = "0.37" if spread else "0.00"  # t_3 = 3.18 times the standard error 0.2 · 2/√3 / 2
    assert (
        f"it moves by +{length:.2f} ± {half}, averaged over layers, while the median head's tokens attended grow as n^0.50"
        in text
    )


def test_skipped_layers_large_logits_and_disagreements() -> None:
    data = audit_dataset()
    data["sink_mass"][1, 0, 0] = 0.7
    data["largest_logit"][1, 3, 2] = 143.4
    data["kappa"][1, 5, 3], data["critical_multiplier"][1, 5, 3] = 0.1, 2.0
    data["kappa_contexts_low"][0, 1] = 0.58
    data.attrs["skipped"] = json.dumps([{"layer": 6, "name": "layers.6", "what": "linear_attention"}])
    text = verdict(data)
    assert "1 head gives it more than half of theirs" in text
    assert "look at layer 3, head 2: its largest logit is 143" in text
    assert "Skipped, for want of softmax attention: 1 layer (linear_attention)." in text
    assert "The gap count disagrees with κ on 1 head " in text
    assert "do not agree within their intervals on 1 head." in text
    data["softcap"][3] = 50.0
    assert "QK-clip" not in verdict(data)


def test_layers_bounded_by_a_window_are_counted_apart() -> None:
    """They cannot grow with a context that they do not see, and the first token is out of their sight."""
    data = audit_dataset()
    data["most_visible"][1, 2:4] = 128
    data["phase"][1, 2:4] = -1
    data["sink_mass"][1, 2:4] = 0.0
    text = verdict(data)
    assert "At 8192 tokens, of 24 heads 0 diluted, 16 sparse, 0 frozen and 0 undecided." in text
    assert "8 heads in layers that see at most 128 tokens are not counted." in text
    assert "The first token takes 5.0 % of all attention" in text
    assert phase_counts(data, 8192)["bounded"] == 8


def test_one_window_places_no_head() -> None:
    data = audit_dataset().isel(window=[0])
    data.attrs["n_windows"] = 1
    data["phase"][:] = 3
    text = verdict(data)
    assert "the median head has κ = 0.50" in text
    assert "One text window gives no interval" in text
    assert "reaches over a margin" not in text
    assert "Nothing here asks" not in text


def test_where_the_sink_begins() -> None:
    data = audit_dataset()
    data["sink_mass"][:] = 0.01
    data["sink_mass"][1, 2:] = 0.4
    assert (
        "27 % of all attention (1.0 % at 512 tokens), next to nothing before layer 2 and 40 % from there on;"
        in verdict(data)
    )
    data["sink_mass"][1, :, :] = 0.3
    assert "next to nothing" not in verdict(data)


def test_undecided_heads_ask_for_more_windows() -> None:
    data = audit_dataset()
    data["phase"][1, :4] = 3
    assert "--windows 13 to place more of the undecided heads" in verdict(data)
    data.attrs["windows_in_text"] = 5
    assert "--windows 16 with a longer --text to place" in verdict(data)


def test_one_context_says_what_it_cannot_say() -> None:
    data = audit_dataset().isel(context=[1])
    text = verdict(data)
    assert "The median head attends to 40 tokens." in text
    assert "One context cannot say whether they come together with length" in text
    data["phase"][:] = -1
    text = verdict(data)
    assert "At 8192 tokens no head could be placed" in text
    assert "Nothing here asks" not in text


def test_what_the_config_applies_already_stands_in_the_verdict() -> None:
    data = audit_dataset()
    plain = verdict(data)
    assert (
        verdict(data.assign_attrs(applied="The config applies this."))
        .split("\n")[3:5]
        .count("The config applies this.")
        == 1
    )
    assert plain in verdict(data) and "The config" not in plain
