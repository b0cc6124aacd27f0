"""What the verdict says of the heads' wishes: each sentence turns when its numbers do."""

from __future__ import annotations

import numpy as np
import xarray as xr
from tests.audit.test_wording import N_HEADS, N_LAYERS, audit_dataset

from attnlim.audit.wish_wording import sum_of_sizes, wish_counts, wishes
from attnlim.audit.wording import verdict
from attnlim.core.intervals import jackknife_mean

SHAPE = (2, N_LAYERS, N_HEADS)


def wishing(value: float = 0.0, half: float = 0.01) -> xr.Dataset:
    """Every head with the same sensitivity and interval; κ and b_c differ between heads."""
    data = audit_dataset()
    head = ("context", "layer", "head")
    order = np.broadcast_to(np.linspace(0.3, 0.7, N_LAYERS * N_HEADS).reshape(N_LAYERS, N_HEADS), SHAPE)
    data["kappa"] = (head, order.copy())
    data["critical_multiplier"] = (head, 2 * order)
    for end, shift in (("", 0.0), ("_low", -half), ("_high", half)):
        data[f"sensitivity{end}"] = (head, np.full(SHAPE, value + shift))
    data["sensitivity_se"] = (head, np.full(SHAPE, half / 3.18))
    total = value * N_LAYERS * N_HEADS
    for end, shift in (("", 0.0), ("_low", -0.05), ("_high", 0.05)):
        data[f"sensitivity_total{end}"] = ("context", np.full(2, total + shift))
    return data.assign_attrs(trained_length=8192)


def move(data: xr.Dataset, place: tuple[int, ...], value: float) -> None:
    for end in ("", "_low", "_high"):
        data[f"sensitivity{end}"][place] += value


def test_without_sensitivities_nothing_is_said_of_them() -> None:
    assert "sharper" not in verdict(audit_dataset())


def test_heads_are_counted_and_placed() -> None:
    data = wishing()
    move(data, (1, 0, 1), -0.02)
    move(data, (1, 3, 2), -0.02)
    move(data, (1, 4), 0.05)
    text = verdict(data)
    assert (
        "of 24 heads 2 would rather be sharper (layer.head 0.1, 3.2), 4 would rather be softer (layer.head 4.0, 4.1, 4.2, 4.3) "
        "and 18 are undecided." in text
    )
    assert "Chance alone would decide about 1.)" in text
    assert "At 512 tokens it was 0 sharper, 0 softer." in text
    assert wish_counts(data, 8192) == {"sharper": 2, "softer": 4, "undecided": 18}
    data["sensitivity"][1, 5, 3] = data["sensitivity_low"][1, 5, 3] = data["sensitivity_high"][1, 5, 3] = np.nan
    assert wishes(data, 8192)[5, 3] == -1 and wish_counts(data, 8192)["undecided"] == 17


def test_an_interval_that_ends_at_zero_decides_nothing() -> None:
    data = wishing()
    data["sensitivity_low"][:] = 0.0
    assert wish_counts(data, 8192)["softer"] == 0
    data["sensitivity_high"][:] = 0.0
    assert wish_counts(data, 8192)["sharper"] == 0


def test_all_together() -> None:
    assert (
        "moves the loss by −0.240 ± 0.050 nats a token per unit of its logarithm: all together would rather be sharper."
        in verdict(wishing(-0.01))
    )
    assert "by +0.240 ± 0.050 nats a token per unit of its logarithm: all together would rather be softer." in verdict(
        wishing(0.01)
    )
    assert "by +0.000 ± 0.050 nats a token per unit of its logarithm, which may be 0." in verdict(wishing())


def test_heads_that_pull_apart() -> None:
    """Their own wishes are far larger than their sum, and than what their intervals allow by chance."""
    data = wishing(half=0.002)
    move(data, (1, slice(0, 3)), -0.02)
    move(data, (1, slice(3, 6)), 0.02)
    text = verdict(data)
    # 24 times 0.02; 24 se of 0.002/3.18 times √(2/π)
    assert "add up to 0.48 in absolute value, where chance alone gives about 0.01: heads want different things." in text
    assert "heads want different things" not in verdict(wishing(-0.02))
    noise = wishing(half=0.1)
    move(noise, (1, slice(0, 3)), -0.02)
    move(noise, (1, slice(3, 6)), 0.02)
    assert "heads want different things" not in verdict(noise)


def test_what_the_phase_says_of_it() -> None:
    order = np.linspace(-0.05, 0.05, N_LAYERS * N_HEADS).reshape(N_LAYERS, N_HEADS)
    data = wishing()
    move(data, (1,), 0.0)
    for end in ("", "_low", "_high"):
        data[f"sensitivity{end}"][1] += -order
    assert (
        "rank-correlates with κ by −1.00 and with b_c by −1.00: a head's phase says much of which way it wants to go."
        in verdict(data)
    )
    data["kappa"][1] = np.random.default_rng(0).permutation(data["kappa"].values[1].ravel()).reshape(N_LAYERS, N_HEADS)
    data["critical_multiplier"][1] = 2 * data["kappa"].values[1]
    assert "says little of which way it wants to go." in verdict(data)
    data["sensitivity_se"][:] = 1.0
    assert "with this few windows that cannot say whether a head's phase tells which way it wants to go." in verdict(
        data
    )


def test_one_window() -> None:
    data = wishing()
    move(data, (1, 0), -0.02)
    for end in ("_low", "_high", "_se"):
        data[f"sensitivity{end}"][:] = np.nan
    data.attrs["n_windows"] = 1
    text = verdict(data)
    assert "At 8192 tokens the loss would fall with larger logits in 4 of 24 heads" in text
    assert "no head's wish is decided" in text
    assert "undecided." not in text.split("no head's wish")[1]


def test_what_to_try_next() -> None:
    """A measured wish takes the place of guesses from phases."""
    data = wishing()
    data["phase"][1, :, 0] = 2
    text = verdict(data)
    assert "`attnlim rescale MODEL --target 16384 --rule calibrate`" in text
    assert "on the frozen heads" not in text and "measure it" not in text
    data.attrs["trained_length"] = 0
    assert "--target 16384" in verdict(data)  # twice the longest context
    data.attrs["not_to_rescale"] = "TinyForCausalLM has learned positions (wpe)"
    assert "attnlim rescale" not in verdict(data)


def test_what_sizes_add_up_to_by_chance() -> None:
    """Of heads that want nothing the sum of sizes is what chance gives, however few windows there are."""
    rng = np.random.default_rng(0)
    for n_windows in (2, 4, 9):
        found = jackknife_mean(rng.normal(size=(n_windows, 40_000)))
        data = xr.Dataset(
            {"sensitivity": ("head", found.estimate), "sensitivity_se": ("head", found.standard_error)},
            attrs={"n_windows": n_windows},
        )
        alone, chance = sum_of_sizes(data)
        # both have a relative standard error of at most 0.756/√40000 = 0.004
        assert abs(alone / chance - 1) < 0.02
