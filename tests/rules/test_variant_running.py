"""A model run as a variant says: shared beginnings, needles and derivatives against the whole window run plainly."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from tests.rules.rescaling import TARGET, TRAINED, Letters, decoder, text

from attnlim.models.text import cut_windows
from attnlim.rules.attaching import multiplier_of
from attnlim.rules.head_sensitivity import sensitivity
from attnlim.rules.needle_scores import needle_scores
from attnlim.rules.needles import COMPANIES, haystack
from attnlim.rules.stretching import stretched
from attnlim.rules.variant_running import running, shared_prefix, window_nll
from attnlim.rules.variants import Variant, critical_variant, fixed_variants, slope_variant

STRETCH = TARGET / TRAINED
POWERS = np.array([[0.5, 1.0, 2.0, -1.0], [0.0, 3.0, np.nan, 1.0]])


@pytest.fixture(scope="module")
def model() -> Any:
    return decoder()


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    return cut_windows(Letters(), text(), 2, TARGET).ids(0, TARGET)


def _variants() -> dict[str, Variant]:
    slopes = np.linspace(-0.4, 0.9, 8).reshape(2, 4)
    found = [*fixed_variants(TRAINED, TARGET, POWERS), slope_variant("slopes", "", TRAINED, slopes)]
    return {variant.name: variant for variant in found}


def test_which_variants_leave_the_trained_length_alone() -> None:
    spared = [name for name, variant in _variants().items() if variant.spares_short]
    assert spared == ["none", "qwen", "steps", "critical", "slopes"]


@pytest.mark.parametrize("name", ["none", "qwen", "steps", "critical", "slopes"])
def test_a_shared_beginning_gives_what_the_whole_window_gives(model: Any, ids: torch.Tensor, name: str) -> None:
    """In float64 the two orders of the same sums part by rounding alone."""
    variant = _variants()[name]
    prefix = shared_prefix(model, ids, TRAINED, STRETCH)
    shared = window_nll(model, ids, variant, STRETCH, prefix)
    whole = window_nll(model, ids, variant, STRETCH)
    assert np.isnan(shared[0]) and np.isnan(whole[0])
    np.testing.assert_allclose(shared[1:], whole[1:], rtol=1e-6)


@pytest.mark.parametrize("name", ["yarn", "ssmax", "longrope"])
def test_a_rule_that_acts_within_the_trained_length_must_not_share_it(model: Any, ids: torch.Tensor, name: str) -> None:
    variant = _variants()[name]
    assert not variant.spares_short
    wrong = window_nll(model, ids, variant, STRETCH, shared_prefix(model, ids, TRAINED, STRETCH))
    assert np.abs(wrong - window_nll(model, ids, variant, STRETCH))[TRAINED:].max() > 1e-3


def test_every_variant_is_a_run_of_its_own(model: Any, ids: torch.Tensor) -> None:
    """No two rules come out alike, and none leaves something behind."""
    before = model(ids).logits
    losses = {name: np.nanmean(window_nll(model, ids, one, STRETCH)[TRAINED:]) for name, one in _variants().items()}
    assert len({round(loss, 9) for loss in losses.values()}) == len(losses)
    assert torch.equal(model(ids).logits, before)


def test_yarn_is_transformers_yarn(model: Any, ids: torch.Tensor) -> None:
    config = copy.deepcopy(model.config)
    config.rope_parameters = {
        "rope_type": "yarn",
        "rope_theta": model.config.rope_parameters["rope_theta"],
        "factor": STRETCH,
        "original_max_position_embeddings": TRAINED,
    }
    reference = type(model)(config).double().eval()
    reference.load_state_dict(model.state_dict())
    with torch.no_grad():
        logits = reference(ids).logits[0]
    expected = torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:], reduction="none").numpy()
    np.testing.assert_allclose(window_nll(model, ids, _variants()["yarn"], STRETCH)[1:], expected, rtol=1e-6)


def test_heads_without_a_power_keep_their_factor() -> None:
    variant = critical_variant(TRAINED, POWERS)
    assert "1 of 8 heads without a fit keep 1" in variant.words
    assert variant.rule.parts(TARGET - 1, layer=1, head=2).query == 1


@pytest.mark.parametrize("company", COMPANIES)
@pytest.mark.parametrize("name", ["none", "slopes", "yarn"])
def test_needles_are_scored_as_behind_one_whole_text(model: Any, company: Any, name: str) -> None:
    """Each question behind the context in one forward, with the attention weights that eager attention hands out."""
    variant = _variants()[name]
    hay = haystack(Letters(), _long(), company, 1024, seed=3)
    prefix = shared_prefix(model, hay.ids, TRAINED, STRETCH) if variant.spares_short else None
    scores = needle_scores(model, hay, variant, STRETCH, (2, 4), prefix)
    model.set_attn_implementation("eager")
    try:
        for i, needle in enumerate(hay.needles):
            whole = torch.cat([hay.ids[0], needle.question, needle.answer])[None]
            with running(model, variant, STRETCH), torch.no_grad():
                output = model(whole, output_attentions=True)
            first = hay.ids.shape[1] + len(needle.question) - 1
            logits = output.logits[0, first:-1]
            nll = torch.nn.functional.cross_entropy(logits, needle.answer, reduction="sum")
            assert scores.nll[i] == pytest.approx(float(nll), rel=1e-6)
            assert scores.found[i] == bool((logits.argmax(dim=-1) == needle.answer).all())
            mass = torch.stack(
                [weights[0, :, first, needle.begins : needle.ends].sum(dim=-1) for weights in output.attentions]
            )
            np.testing.assert_allclose(scores.mass[i], mass.numpy(), rtol=1e-5)
    finally:
        model.set_attn_implementation("sdpa")


def _long() -> torch.Tensor:
    return cut_windows(Letters(), text(), 1, 1024).ids(0, 1024)


def test_needles_lie_where_they_say() -> None:
    for company in COMPANIES:
        hay = haystack(Letters(), _long(), company, 1024, seed=0)
        assert hay.ids.shape[1] <= 1024
        for needle in hay.needles:
            sentence = Letters().decode(hay.ids[0, needle.begins : needle.ends].tolist())
            question, answer = Letters().decode(needle.question.tolist()), Letters().decode(needle.answer.tolist())
            assert sentence == f"{question}{answer}.\n"
        depths = [needle.begins / hay.ids.shape[1] for needle in hay.needles]
        assert depths == sorted(depths)
        other = haystack(Letters(), _long(), company, 1024, seed=1)
        assert not torch.equal(other.needles[0].answer, hay.needles[0].answer)


class Marked(Letters):
    """Puts a mark in front of whatever it is given, as some tokenizers do with a word that begins a text."""

    def __call__(self, text: str, **settings: Any) -> dict[str, list[int]]:
        return {"input_ids": [1, *super().__call__(text)["input_ids"]]}


def test_a_number_is_tokenised_where_it_stands() -> None:
    """By itself it would begin with a mark that no sentence holds, and never be found."""
    plain, marked = (haystack(one, _long(), "alone", 1024, seed=0) for one in (Letters(), Marked()))
    for needle, other in zip(plain.needles, marked.needles, strict=True):
        assert torch.equal(other.answer, needle.answer)
        sentence = marked.ids[0, other.begins : other.ends]
        assert torch.equal(sentence[:-2], torch.cat([other.question, other.answer]))


def test_depths_are_where_sentences_begin() -> None:
    hay = haystack(Letters(), _long(), "competing", 1024, seed=0)
    assert [needle.depth for needle in hay.needles] == [needle.begins / 1024 for needle in hay.needles]


def test_the_derivative_is_that_of_the_loss_which_is_judged(model: Any, ids: torch.Tensor) -> None:
    """Behind a shared beginning, at slopes that are not 0: central differences of the losses that a comparison reports."""
    at = np.linspace(-0.2, 0.4, 8).reshape(2, 4)
    prefix = shared_prefix(model, ids, TRAINED, STRETCH)
    rule = slope_variant("now", "", TRAINED, at).rule
    with stretched(model, STRETCH):
        found = sensitivity(
            model, ids[:, TRAINED:], trained=TRAINED, multiplier=multiplier_of(rule, model), past=prefix.read.cache
        )
    step = 1e-4
    for layer, head in ((0, 1), (1, 3)):
        moved = []
        for sign in (1, -1):
            there = at.copy()
            there[layer, head] += sign * step
            nll = window_nll(model, ids, slope_variant("there", "", TRAINED, there), STRETCH, prefix)
            moved.append(nll[TRAINED + 1 :].mean())
        # float32 factors: a difference over 2e-4 of losses that are right to about 1e-8
        assert found.by_slope[layer, head] == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=2e-2, abs=2e-4)


def test_a_query_shown_to_a_watcher_is_scaled(model: Any, ids: torch.Tensor) -> None:
    seen: dict[str, list[torch.Tensor]] = {"none": [], "slopes": []}
    for name, queries in seen.items():
        with (
            running(model, _variants()[name], STRETCH, lambda call, kept=queries: kept.append(call.query)),
            torch.no_grad(),
        ):
            model(ids)
    ratio = seen["slopes"][0] / seen["none"][0]
    assert torch.allclose(ratio[..., :TRAINED, :], torch.ones((), dtype=ratio.dtype))
    expected = _variants()["slopes"].rule.parts(TARGET - 1, layer=0).query
    np.testing.assert_allclose(ratio[0, :, -1, 0].numpy(), expected, rtol=1e-6)
