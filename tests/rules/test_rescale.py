"""A whole comparison on a small decoder: resumed to the same bits, judged by what is known of it, refused where it must be."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from tests.rules.rescaling import TRAINED, Letters, decoder, loaded, text

from attnlim.core.checks import InputError
from attnlim.models.forward_cost import forward_cost
from attnlim.models.loading import LoadedModel
from attnlim.models.text import Text
from attnlim.rules.audited_heads import heads_of
from attnlim.rules.exporting import export, variant_of
from attnlim.rules.factors import yarn_attention_factor
from attnlim.rules.layer_kinds import Layer
from attnlim.rules.rescale_dataset import BEYOND, WITHIN, Course, buckets, pair
from attnlim.rules.rescale_plan import FIRST_RADIUS, RADII, ROUNDS, Plan, make_plan, step_name
from attnlim.rules.rescale_run import _Runner, rescale, run_plan
from attnlim.rules.rescale_tables import bucket_table, variant_table
from attnlim.rules.rescale_words import _advice, recommended, verdict
from attnlim.rules.sidecar import load
from attnlim.rules.slope_steps import stepped
from attnlim.rules.variant_running import window_nll
from attnlim.rules.variants import slope_of

# room for eight needles of a letter a token
TARGET = 640


def _audit(n_layers: int = 2, n_heads: int = 4, **changed: Any) -> xr.Dataset:
    per_head = (("context", "layer", "head"), np.linspace(0.1, 1.2, n_layers * n_heads).reshape(1, n_layers, n_heads))
    return xr.Dataset(
        {
            "critical_exponent": per_head,
            "critical_multiplier": per_head,
            "kappa": per_head,
            "phase": (("context", "layer", "head"), np.ones((1, n_layers, n_heads), dtype=np.int8)),
            "most_visible": (("context", "layer"), [[TRAINED, *[TRAINED] * (n_layers - 1)]]),
        },
        coords={"context": [TRAINED], "layer": np.arange(n_layers), "head": np.arange(n_heads)},
        attrs={"kind": "attnlim.audit", **changed},
    )


def _plan(**settings: Any) -> Plan:
    names = settings.pop("names", ["calibrate"])
    return make_plan(loaded(settings.pop("model", None)), [text(8 * TARGET)], TARGET, names, audit=_audit(), **settings)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cells")


@pytest.fixture(scope="module")
def found(stored: Path) -> xr.Dataset:
    return run_plan(_plan(), stored)


def test_every_variant_is_measured_on_the_same_tokens(found: xr.Dataset) -> None:
    names = found["variant"].values.tolist()
    assert names == [
        *("raw", "none", "yarn", "longrope", "ssmax", "qwen", "steps", "critical", "constant", "slope", "calibrated")
    ]
    assert np.isnan(found["nll"].values).sum() == len(names) * 2  # the first token of each window
    assert found["nll"].shape == (len(names), 2, TARGET)


def test_losses_are_those_of_the_variants(found: xr.Dataset) -> None:
    plan = _plan()
    for variant in plan.variants[:3]:
        nll = window_nll(plan.model, plan.windows["test"][1], variant, plan.stretch)
        np.testing.assert_allclose(found["nll"].sel(variant=variant.name)[1], nll, rtol=1e-9)


def test_buckets_cover_the_target_once(found: xr.Dataset) -> None:
    places = buckets(TRAINED, TARGET)
    inner = [place for name, place in places.items() if name not in (WITHIN, BEYOND)]
    assert inner[0][0] == 0 and inner[-1][1] == TARGET
    assert all(before[1] == after[0] for before, after in itertools.pairwise(inner))
    beyond = found["nll"].sel(variant="yarn")[:, TRAINED:].mean()
    assert float(found["bucket_nll"].sel(variant="yarn", bucket=BEYOND)) == pytest.approx(float(beyond), rel=1e-12)


def test_differences_are_paired_and_none_is_their_zero(found: xr.Dataset) -> None:
    at_none = found.sel(variant="none")
    assert (at_none["difference"] == 0).all() and (at_none["difference_high"] == 0).all()
    spared = found.sel(variant=["qwen", "steps", "critical", "slope", "calibrated"], bucket=WITHIN)
    assert (spared["difference"] == 0).all()
    apart = pair(found, "yarn", "none", BEYOND)
    assert float(apart.estimate) == pytest.approx(
        float(found["difference"].sel(variant="yarn", bucket=BEYOND)), rel=1e-9
    )


def test_a_calibration_is_at_least_as_good_as_its_start_where_it_was_stopped(found: xr.Dataset) -> None:
    tried = dict(zip(found["tried_name"].values.tolist(), found["tried_loss"].values.tolist(), strict=True))
    starts = [loss for name, loss in tried.items() if name.startswith("slope")]
    taken = json.loads(found.attrs["taken"])
    assert tried[found.attrs["begun"]] == min(starts)
    losses = [min(starts), *(tried[name] for name in taken)]
    assert losses == sorted(losses, reverse=True)
    assert found["derivative"].shape == (found.sizes["round"], 2, 2, 4)


def test_one_slope_for_all_heads_stands_beside_those_of_each(found: xr.Dataset) -> None:
    """So that what slopes by head add can be told from what a slope adds."""
    tried = dict(zip(found["tried_name"].values.tolist(), found["tried_loss"].values.tolist(), strict=True))
    shared = found.attrs["shared_slope"]
    of_qwen = 1 / np.log(TRAINED)
    losses = {of_qwen: tried[f"slope {of_qwen:.3f}"], 0.2: tried["slope 0.2"]}
    assert shared == min(losses, key=losses.__getitem__)
    at = found["multiplier"].sel(variant="slope").values
    np.testing.assert_allclose(at, 1 + shared * np.log(TARGET / TRAINED), rtol=1e-12)
    plan = _plan()
    slope = variant_of(plan, found, "slope")
    nll = window_nll(plan.model, plan.windows["test"][1], slope, plan.stretch)
    np.testing.assert_allclose(nll, found["nll"].sel(variant="slope")[1], rtol=1e-6)


def test_derivatives_of_whole_windows_are_those_behind_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = _Runner(_plan(), None, lambda cell, was_stored: None)
    slope = np.linspace(-0.2, 0.4, 8).reshape(2, 4)
    assert runner.plan.derives_whole
    whole = runner.derivatives(0, slope)
    monkeypatch.setattr(Plan, "derives_whole", False)
    np.testing.assert_allclose(whole, runner.derivatives(0, slope), rtol=1e-6, atol=1e-12)
    assert np.abs(whole).min() > 1e-7 and runner.held is not None


def test_a_shorter_stretch_is_derived_behind_a_prefix() -> None:
    """It computes fewer pairs there: (640 - 512) · 640 of them against half of 640²."""
    near = make_plan(loaded(decoder(max_position_embeddings=512)), [text(8 * TARGET)], TARGET, ["calibrate"])
    assert not near.derives_whole and _plan().derives_whole


def test_losses_of_whole_windows_are_those_behind_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = TARGET // 2
    model = loaded(decoder(max_position_embeddings=trained))
    plan = make_plan(model, [text(8 * TARGET)], TARGET, ["calibrate"])
    spared = [variant for variant in plan.variants if variant.spares_short]
    assert [variant.name for variant in spared] == ["none", "qwen", "steps"]
    assert all(plan.reads_prefix(variant) for variant in spared)
    runner = _Runner(plan, None, lambda cell, was_stored: None)
    behind = np.stack([runner.nll("test", one) for one in spared])
    assert runner.held is not None
    monkeypatch.setattr(Plan, "shares_prefix", False)
    runner = _Runner(plan, None, lambda cell, was_stored: None)
    whole = np.stack([runner.nll("test", one) for one in spared])
    assert runner.held is None
    np.testing.assert_allclose(whole, behind, rtol=1e-6)
    # a factor of 1 changes no bit: within the trained length whole windows do not tell these rules apart either
    within = whole[:, :, :trained]
    np.testing.assert_array_equal(within, np.broadcast_to(within[:1], within.shape))
    assert (whole[1, :, trained:] != whole[0, :, trained:]).any()


@pytest.mark.parametrize("target", [600, TARGET])
def test_layers_that_keep_a_state(monkeypatch: pytest.MonkeyPatch, target: int) -> None:
    """Convolutions between the attention: no logits, no factor, and a prefix whose states no variant may move on."""
    from transformers import Lfm2Config, Lfm2ForCausalLM

    config = Lfm2Config(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=TARGET // 2, layer_types=["conv", "full_attention"] * 2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = loaded(Lfm2ForCausalLM(config).double().eval())
    behind = rescale(model, target, "calibrate", [text(8 * TARGET)])
    monkeypatch.setattr(Plan, "shares_prefix", False)
    whole = rescale(model, target, "calibrate", [text(8 * TARGET)])
    np.testing.assert_allclose(behind["nll"], whole["nll"], rtol=1e-6)
    np.testing.assert_allclose(behind["needle_nll"], whole["needle_nll"], rtol=1e-6)
    assert np.isnan(behind["multiplier"][:, [0, 2]]).all() and np.isfinite(behind["multiplier"][:, [1, 3]]).all()


def test_beyond_twice_the_trained_length_windows_are_read_whole() -> None:
    """The estimate counts no shared beginnings there, and a whole forward for every variant."""
    far = _plan()
    assert not far.shares_prefix and far.prefix_cost() == 0
    assert {cell.cost for cell in far.test_cells(far.variants)} == {forward_cost(far.model, TARGET)}
    twice = make_plan(loaded(decoder(max_position_embeddings=TARGET // 2)), [text(8 * TARGET)], TARGET, ["all"])
    whole, once = forward_cost(twice.model, TARGET), forward_cost(twice.model, TARGET // 2)
    assert {cell.cost for cell in twice.test_cells(twice.variants)} == {whole, whole - once}
    assert twice.prefix_cost() == (2 + len(twice.hay)) * once


def test_what_is_tried_is_judged_beyond_the_trained_length() -> None:
    nll = np.where(np.arange(TARGET) < TRAINED, 5.0, 2.0)[None]
    assert Course().note("a", nll, TRAINED) == 2


def test_slopes_are_where_the_steps_lead(found: xr.Dataset) -> None:
    """From the start, each step its multiple of a radius that goes on from the step before."""
    starts = {start.name: slope_of(start) for start in _plan().starts}
    slope, radius = np.broadcast_to(starts[found.attrs["begun"]], (2, 4)), FIRST_RADIUS
    taken = json.loads(found.attrs["taken"])
    assert len(taken) == ROUNDS  # or this shows nothing of how the radius goes on
    for turn, name in enumerate(taken):
        radius *= next(multiple for multiple in RADII if name == step_name(turn, multiple))
        slope = stepped(slope, found["direction"][turn], radius)
    np.testing.assert_allclose(found["slope"], slope, rtol=1e-12)


def test_a_run_that_was_cut_short_goes_on_to_the_same_bits(found: xr.Dataset, stored: Path, tmp_path: Path) -> None:
    kept = sorted(stored.iterdir())
    for path in kept[::3]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    again = run_plan(_plan(), tmp_path)
    assert again.identical(found)
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in kept]


def test_cells_are_those_that_were_announced(stored: Path, found: xr.Dataset) -> None:
    announced = {cell.key for cell in _plan().cells()}
    assert {path.stem for path in stored.iterdir()} <= announced


def test_rules_by_name_take_no_more_than_they_need() -> None:
    plan = _plan(names=["qwen"])
    assert [variant.name for variant in plan.variants] == ["raw", "none", "qwen"]
    assert not plan.windows["calibrate"] and not plan.windows["stop"] and not plan.starts
    assert all(cell.arguments["kind"] == "needles" or cell.arguments["part"] == "test" for cell in plan.cells())


def test_simpler_rules_come_first_in_whatever_order_they_are_asked_for() -> None:
    """What is recommended is the first that is not beaten."""
    plan = _plan(names=["critical", "steps", "yarn"])
    assert [variant.name for variant in plan.variants] == ["raw", "none", "yarn", "steps", "critical"]


def test_names_beside_calibrate_are_all_that_is_compared() -> None:
    plan = _plan(names=["qwen", "calibrate"])
    assert [variant.name for variant in plan.variants] == ["raw", "none", "qwen"]
    assert plan.starts and not plan.constants and not plan.left_out
    constant = _plan(names=["constant"])
    assert [variant.name for variant in constant.variants] == ["raw", "none"] and constant.constants
    assert constant.windows["stop"] and not constant.windows["calibrate"]
    everything = [variant.name for variant in _plan(names=["all"]).variants]
    for names in (["calibrate"], ["all", "calibrate"], ["qwen", "all"]):
        assert [variant.name for variant in _plan(names=names).variants] == everything


def test_all_without_an_audit_says_what_is_left_out() -> None:
    plan = make_plan(loaded(), [text(8 * TARGET)], TARGET, ["all"])
    assert "critical" not in [variant.name for variant in plan.variants]
    assert "--audit RUN" in plan.left_out[0]
    assert not plan.starts and plan.windows["stop"]


def test_three_texts_are_the_three_sets() -> None:
    texts = [Text(name, letter * 2000) for name, letter in (("a", "a"), ("b", "b"), ("c", "c"))]
    plan = make_plan(loaded(), texts, TARGET, ["calibrate"])
    for part, letter in (("calibrate", "a"), ("stop", "b"), ("test", "c")):
        assert set(plan.windows[part][0][0].tolist()) == set(Letters()(letter)["input_ids"])


def test_the_sets_share_no_token() -> None:
    numbered = Letters()
    numbered.__class__ = type(
        "Numbered", (Letters,), {"__call__": lambda self, t, **s: {"input_ids": list(range(len(t)))}}
    )
    plan = make_plan(
        LoadedModel(decoder(vocab_size=6000), numbered, "tiny", "", ""), [text(5 * TARGET)], TARGET, ["calibrate"]
    )
    tokens = [set(ids[0].tolist()) for part in plan.windows.values() for ids in part]
    assert len(set.union(*tokens)) == sum(map(len, tokens)) == 5 * TARGET


def _judged(**losses: tuple[float, float]) -> xr.Dataset:
    """A dataset with those mean losses within and beyond, tokens of small independent noise shared by all variants."""
    noise = 0.5 * np.random.default_rng(0).standard_normal((2, TARGET))
    own = np.random.default_rng(1).standard_normal((len(losses), 2, TARGET)) * 0.02
    nll = (
        np.stack([noise + np.where(np.arange(TARGET) < TRAINED, within, beyond) for within, beyond in losses.values()])
        + own
    )
    places = buckets(TRAINED, TARGET)
    return xr.Dataset(
        {
            "nll": (("variant", "window", "position"), nll),
            "bucket_nll": (
                ("variant", "bucket"),
                np.stack([nll[..., low:high].mean(axis=(1, 2)) for low, high in places.values()], axis=1),
            ),
        },
        coords={
            "variant": list(losses),
            "words": ("variant", list(losses)),
            "bucket": list(places),
            "bucket_begins": ("bucket", [low for low, _ in places.values()]),
            "bucket_ends": ("bucket", [high for _, high in places.values()]),
        },
        attrs={"block": 16, "seed": 0, "trained_length": TRAINED, "target": TARGET},
    )


def test_the_simplest_that_is_not_beaten_is_recommended() -> None:
    assert (
        recommended(_judged(raw=(3.0, 4.0), none=(3.0, 3.30), qwen=(3.0, 3.25), calibrated=(3.0, 3.20))) == "calibrated"
    )
    assert recommended(_judged(raw=(3.0, 4.0), none=(3.0, 3.30), qwen=(3.0, 3.20), calibrated=(3.0, 3.1999))) == "qwen"
    assert recommended(_judged(raw=(3.0, 4.0), none=(3.0, 3.2), qwen=(3.0, 3.2), calibrated=(3.0, 3.2))) == "none"
    assert recommended(_judged(raw=(3.0, 3.2), none=(3.0, 3.3), qwen=(3.0, 3.3), calibrated=(3.0, 3.3))) == "raw"


def test_the_best_of_many_needs_more_than_the_better_of_two() -> None:
    """A lead that would do against one other variant does not do against ten."""
    lead = {"raw": (3.0, 4.0), "none": (3.0, 3.3), "qwen": (3.0, 3.2985)}
    two = _judged(**lead)
    low = float(pair(two, "none", "qwen", BEYOND).low)
    many = _judged(**lead, **{f"worse {i}": (3.0, 3.5) for i in range(8)})
    assert low > 0 and float(pair(many, "none", "qwen", BEYOND).low) > 0
    assert float(pair(many, "none", "qwen", BEYOND, 0.995).low) < 0
    assert (recommended(two), recommended(many)) == ("qwen", "none")
    for name in ("difference", "difference_raw"):
        many[name] = many["bucket_nll"] * 0
    assert "qwen has the least loss, but not beyond doubt: −0.002" in _advice(many)
    assert ", 99.5 % for the best of 11) against none" in _advice(many)


def test_without_intervals_nothing_is_beyond_doubt() -> None:
    few = _judged(raw=(3.0, 4.0), none=(3.0, 3.30), qwen=(3.0, 3.25))
    few.attrs["block"] = few.sizes["position"]
    few = few.isel(window=slice(1))
    assert np.isnan(pair(few, "none", "qwen", BEYOND).low) and recommended(few) == "raw"


def test_what_changes_most_is_what_moves_most(found: xr.Dataset) -> None:
    helped = found.copy(deep=True)
    for name in ("yarn", "longrope", "ssmax", "constant"):
        helped["nll"].loc[{"variant": name}] = helped["nll"].sel(variant="none") + (
            -0.5 if name == "longrope" else 0.01
        )
    assert "of those that act there, longrope changes it most, by −0.5" in verdict(helped)


def test_what_is_told_from_noise_is_told_of_slopes_by_head_alone(found: xr.Dataset) -> None:
    assert "told from noise by 2 windows" in verdict(found)
    assert "told from noise" not in verdict(found.assign_attrs(per="layer"))


def test_layers_with_a_window_see_no_more_than_it(found: xr.Dataset) -> None:
    """The factor that is shown is the one that acts: a layer with a window of 16 never sees the 64 keys of the trained length."""
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, max_position_embeddings=TRAINED, sliding_window=16,
    )  # fmt: skip
    windowed = loaded(MistralForCausalLM(config).double().eval())
    plan = make_plan(windowed, [text(8 * TARGET)], TARGET, ["ssmax", "yarn"], windows=(1, 1, 1))
    assert {layer.keys_at(TARGET - 1) for layer in plan.layers} == {16}
    factor = run_plan(plan)["multiplier"]
    np.testing.assert_allclose(factor.sel(variant="ssmax"), np.log(16) / np.log(TRAINED), rtol=1e-12)
    np.testing.assert_allclose(factor.sel(variant="yarn"), yarn_attention_factor(TARGET / TRAINED) ** 2, rtol=1e-12)
    chunked = Layer("chunked_attention", rotary=True, window=16)
    assert [chunked.keys_at(position) for position in (0, 15, 16, 40)] == [1, 16, 1, 9]


def test_words_name_the_winner_and_who_beats_the_calibrated(found: xr.Dataset) -> None:
    text = verdict(found)
    assert text == found.attrs["verdict"]
    assert f"Recommended: {found.attrs['recommended']}" in text
    others = found.drop_sel(variant=["raw", "none", "calibrated"])
    loss = others["bucket_nll"].sel(bucket=BEYOND)
    best = str(loss["variant"].values[loss.values.argmin()])
    assert f"best rule without slopes by head ({best})" in text and f"Calibrated against {best}" in text
    worse = found.copy(deep=True)
    worse["nll"].loc[{"variant": "calibrated"}] += 1.0
    worse["bucket_nll"].loc[{"variant": "calibrated"}] += 1.0
    assert f"so {best} beats it" in verdict(worse)


def test_tables(found: xr.Dataset) -> None:
    table = bucket_table(found)
    assert len(table) == found.sizes["variant"] * found.sizes["bucket"]
    row = table[(table.variant == "yarn") & (table.bucket == BEYOND)].iloc[0]
    assert row.difference == float(found["difference"].sel(variant="yarn", bucket=BEYOND))
    assert variant_table(found).variant.tolist() == found["variant"].values.tolist()


def test_multipliers_are_those_at_the_target(found: xr.Dataset) -> None:
    at = found["multiplier"]
    assert (at.sel(variant=["raw", "none"]) == 1).all()
    assert np.unique(at.sel(variant="qwen")) == pytest.approx(np.log(TARGET) / np.log(TRAINED))
    assert np.unique(at.sel(variant="yarn")) == pytest.approx((1 + 0.1 * np.log(TARGET / TRAINED)) ** 2)
    slopes = found["slope"].values
    np.testing.assert_allclose(at.sel(variant="calibrated"), 1 + slopes * np.log(TARGET / TRAINED), rtol=1e-12)


def test_what_an_audit_gives() -> None:
    found = heads_of(_audit(), 2, 4)
    assert set(found) == {"critical_exponent", "critical_multiplier", "kappa", "phase"}
    bounded = _audit().assign(most_visible=(("context", "layer"), [[TRAINED, 16]]))
    heads = heads_of(bounded, 3, 4)
    assert np.isfinite(heads["kappa"][0]).all() and np.isnan(heads["kappa"][1:]).all()
    assert heads["phase"][1].tolist() == heads["phase"][2].tolist() == [-1] * 4


def test_an_earlier_recommendation_does_not_stay(found: xr.Dataset, tmp_path: Path) -> None:
    plan = _plan()
    for name, left in (
        ("calibrated", ["rope_parameters.json", "rule.json"]), ("yarn", ["rope_parameters.json"]), ("raw", []),
    ):  # fmt: skip
        export(plan, variant_of(plan, found, name), tmp_path)
        found_there = sorted(path.name for path in (tmp_path / "attnlim").iterdir())
        assert [name for name in found_there if name.endswith(".json")] == left
        assert any(name.endswith(".safetensors") for name in found_there) == (name == "calibrated")


def test_from_python_what_is_recommended_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    data = rescale(loaded(), TARGET, "qwen", [text(8 * TARGET)], windows=(1, 1, 1), export_to=tmp_path)
    wanted = {"raw": [], "none": ["rope_parameters.json"]}.get(
        data.attrs["recommended"], ["rope_parameters.json", "rule.json"]
    )
    assert sorted(path.name for path in tmp_path.rglob("*.json")) == wanted


@pytest.mark.parametrize("name", ["calibrated", "slope", "constant", "yarn", "none", "raw"])
def test_what_is_exported_makes_the_variant_again(found: xr.Dataset, tmp_path: Path, name: str) -> None:
    plan = _plan()
    variant = variant_of(plan, found, name)
    written = [path.name for path in export(plan, variant, tmp_path)]
    assert written == {"raw": [], "none": ["rope_parameters.json"], "yarn": ["rope_parameters.json"]}.get(
        name, ["rope_parameters.json", "rule.json"]
    )
    settings = {}
    if written:
        settings["rope_parameters"] = json.loads((tmp_path / "attnlim" / "rope_parameters.json").read_text())
    model = decoder(**settings)
    if "rule.json" in written:
        load(model, tmp_path)
    ids = plan.windows["test"][0]
    with torch.no_grad():
        logits = model(ids).logits[0]
    nll = torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:], reduction="none")
    np.testing.assert_allclose(nll, found["nll"].sel(variant=name)[0, 1:], rtol=1e-6)
    with torch.no_grad():  # exporting leaves the model as it was
        assert torch.equal(plan.model(ids).logits, decoder()(ids).logits)


def scaling() -> Any:
    """A model with plain rotary positions whose own config scales its queries beyond 8192 tokens."""
    from transformers import AutoModelForCausalLM, Llama4TextConfig

    return AutoModelForCausalLM.from_config(Llama4TextConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, max_position_embeddings=TRAINED, num_local_experts=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )).eval()  # fmt: skip


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: make_plan(loaded(), [text()], TRAINED, ["all"]), "rescale goes beyond the 64 tokens"),
        (lambda: make_plan(loaded(), [text()], 32, ["all"]), "rescale goes beyond the 64 tokens"),
        (lambda: make_plan(loaded(), [text(2000)], TARGET, ["calibrate"]), "2 to calibrate, 1 to stop, 2 to test.*longer --text"),
        (lambda: make_plan(loaded(), [text()] * 2, TARGET, ["all"]), "--text takes one file.*or three"),
        (lambda: make_plan(loaded(), [text(9999)], TARGET, ["critical"]), "critical rule needs b_c .* --audit RUN"),
        (lambda: make_plan(loaded(), [text(9999)], TARGET, ["yarm"]), "--rule must be one of raw, none, yarn"),
        (lambda: make_plan(loaded(), [text(9999)], TARGET, ["all", "yarm"]), "--rule must be one of raw, none, yarn"),
        (lambda: make_plan(loaded(), [text(9999)], TARGET, ["critical", "calibrate"]), "critical rule needs b_c"),
        (lambda: make_plan(loaded(scaling()), [text(9999)], TARGET, ["all"]), "scales its logits already .*checkpoint without it"),
        (lambda: make_plan(loaded(), [text(9999)], TARGET, ["calibrate"], windows=(1, 1, 1)), "'calibrate' must be .* at least 2"),
        (lambda: make_plan(loaded(), [text(9999)], TARGET, ["all"], per="heads"), "--per must be one of head, layer, model"),
        (lambda: make_plan(loaded(), [text(9999)], 200, ["all"]), "needles need a context of at least"),
        (lambda: heads_of(_audit(kind="attnlim.phase"), 2, 4), "--audit needs a run of `attnlim audit`"),
        (lambda: heads_of(_audit(), 2, 8), "a model with 2 layers and 4 heads, this one has 2 and 8"),
    ],
)  # fmt: skip
def test_what_is_refused(make: Callable[[], Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        make()
