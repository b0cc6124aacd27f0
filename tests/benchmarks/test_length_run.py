"""The length benchmark as a whole, on decoders of a few steps: goes on where it stopped, to the same bytes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.length import __main__ as command
from benchmarks.length import sweep
from benchmarks.length.decoder import Decoder, Shape
from benchmarks.length.measures import judged
from benchmarks.length.results import Results, keep
from benchmarks.length.rows import RowWatch, octaves
from benchmarks.length.sweep import Reading, gap_counts, names, read
from benchmarks.length.train import CHECKPOINTS, Spec, all_specs, batch, decoder, denormals_flushed, schedule, trained

from attnlim.context.gaps import critical_multiplier
from attnlim.core.cells import Cell

SIZES = {"n_steps": 3, "tokens": 512, "n_layers": 2, "n_heads": 2, "width": 32}
READING = Reading(lengths=(256, 512), n_windows=1, n_recalls=1, n_rows=4)
TWO = [Spec("critical", "nope", 0, **SIZES), Spec("softmax", "rope unseen", 0, **SIZES)]


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class _StoppedError(Exception):
    pass


def test_it_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = command.measured(TWO, READING, tmp_path / "whole")
    keep(tmp_path / "whole.json", whole)
    done: list[str] = []

    def stop(cell: Cell, was_stored: bool) -> None:
        done.append(cell.key)
        if len(done) == 5:  # two trained, two gap counts, one reading
            raise _StoppedError

    monkeypatch.setattr(command, "tell", stop)
    with pytest.raises(_StoppedError):
        command.measured(TWO, READING, tmp_path / "parts")
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts" / "cells").iterdir()}
    assert len(stored) == 5
    monkeypatch.setattr(command, "tell", lambda cell, was_stored: None)

    def never(**arguments: Any) -> Any:
        raise AssertionError("trained again")

    monkeypatch.setattr(command, "trained", never)
    monkeypatch.setattr(sweep, "trained", never)
    again = command.measured(TWO, READING, tmp_path / "parts")
    assert all(path.stat().st_mtime_ns == when for path, when in stored.items())
    for run, other in zip(whole["runs"], again["runs"], strict=True):
        run.pop("cpu_seconds"), other.pop("cpu_seconds")
    keep(tmp_path / "first.json", whole)
    keep(tmp_path / "second.json", again)
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()


def test_a_quick_run_has_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(command, "QUICK_SIZES", SIZES)
    command.main(["--quick", "--work", str(tmp_path)])
    results = Results.load(tmp_path / "length.json")
    assert results.lengths == [256, 512] and results.seeds == [0]
    # two lengths and three steps: where the best multiplier is a bound there is no power
    missing = {one.prediction.name for one in judged(results) if not math.isfinite(one.estimate)}
    assert missing <= {"best_recall_power_softmax_nope"}
    assert "| predicted |" in capsys.readouterr().out


def test_training_learns_and_is_repeatable() -> None:
    spec = Spec("ssmax", "rope", 1, n_steps=25, tokens=512, n_layers=1, n_heads=2, width=32)
    first, again = trained(spec), trained(spec)
    for name in first.keys() - {"seconds"}:
        assert np.array_equal(first[name], again[name], equal_nan=True), name
    assert first["curve.text"][-5:].mean() < first["curve.text"][:5].mean() - 0.5
    assert list(first["checkpoint.step"]) == sorted({round(share * 25) for share in CHECKPOINTS})
    assert first["checkpoint.kappa"].shape == (len(first["checkpoint.step"]), 1, 2)
    assert np.all(first["checkpoint.scale"][0] == np.float32(0.43)) and np.any(
        first["checkpoint.scale"][-1] != np.float32(0.43)
    )
    model = decoder(spec, first)
    assert np.array_equal(model.blocks[0].attention.scale.detach().numpy(), first["weights.blocks.0.attention.scale"])


def test_every_arm_of_a_seed_reads_the_same_batches() -> None:
    from benchmarks.length.data import batch_stream

    drawn = []
    for spec in all_specs(1):
        rng = batch_stream(spec.seed, "train")
        drawn.append([batch(spec, share, rng) for share in (0.0, 0.5)])
    for one in drawn[1:]:
        for (tokens, _, asked), (others, _, other_asked) in zip(drawn[0], one, strict=True):
            assert torch.equal(tokens, others) and torch.equal(asked, other_asked)
    assert [spec.positions == "rope" for spec in all_specs(1)] == [one[0][1] is not None for one in drawn]


def test_other_settings_are_another_cell() -> None:
    assert len({spec.cell().key for spec in (*all_specs(3), *all_specs(3, n_steps=7))}) == 42


def test_schedule() -> None:
    rates = [schedule(step, 200) for step in range(200)]
    assert rates[0] == 1 / 20 and rates[19] == 1.0 and rates[100] == 1.0 and rates[-1] == 0.02
    assert rates[100:] == sorted(rates[100:], reverse=True)


@torch.inference_mode()
def test_rows_are_measured_as_the_definitions_say() -> None:
    """Entropy, weight and gap count of a row, from logits that are written out."""
    model = Decoder(Shape(50, 2, 2, 16), seed=1).eval()
    tokens = torch.randint(50, (1, 24), generator=torch.Generator().manual_seed(0))
    rows, distance = torch.tensor([14, 20, 23]), torch.tensor([3, 20, 1])
    watch = RowWatch(rows, distance, gaps=True)
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    model(tokens, watch=watch)
    model(tokens, watch=lambda layer, x, query, key: kept.append((query, key)))
    for layer, (query, key) in enumerate(kept):
        for head in range(2):
            for place, (row, back) in enumerate(zip(rows.tolist(), distance.tolist(), strict=True)):
                logits = (query[0, head, row] @ key[0, head, : row + 1].T).double()
                weights = torch.softmax(logits, dim=0)
                at = (layer, 0, head, place)
                # products of 8 float32 numbers, in another order
                assert watch.layers("entropy")[at] == pytest.approx(float(-(weights * weights.log()).sum()), rel=1e-5)
                assert watch.layers("weight_asked")[at] == pytest.approx(float(weights[row - back]), rel=1e-5)
                assert watch.layers("critical_multiplier")[at] == pytest.approx(
                    float(critical_multiplier(logits)), rel=1e-4
                )


def test_octaves_do_not_overlap() -> None:
    groups = octaves(256, 32)
    assert [len(rows) for rows in groups] == [16, 32, 64, 128]
    assert np.array_equal(np.concatenate(groups), np.arange(16, 256))


def test_a_multiplier_acts_and_one_does_not(tmp_path: Path) -> None:
    """Under the multiplier 1 a decoder is read as it was trained; sharper heads attend to fewer tokens."""
    spec = Spec("softmax", "rope", 0, **SIZES)
    arrays = read(spec, "rope", 256, READING, tmp_path)
    listed = names(spec, 256)
    model = decoder(spec, trained(spec))
    plain = sweep.on_text(model, 256, READING, [lambda position, keys: torch.ones(len(keys))] * 2, None)
    assert arrays["text"][listed.index("1")] == pytest.approx(plain["text"], abs=1e-6)
    share = arrays["text_share"].mean(axis=(1, 2))
    assert (np.diff(share) < 0).all()


def test_windows_of_every_length_end_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes whose NLL is compared between lengths are the same ones."""
    ends = []

    def watched(self: Any, tokens: torch.Tensor, **options: Any) -> Any:
        ends.append(tokens[0, -sweep.LAST :].tolist())
        options["watch"](
            0,
            torch.ones(1, tokens.shape[1], 4),
            torch.zeros(1, 1, tokens.shape[1], 4),
            torch.zeros(1, 1, tokens.shape[1], 4),
        )
        return torch.zeros(1, tokens.shape[1], 600), []

    monkeypatch.setattr(Decoder, "forward", watched)
    reading = Reading(lengths=(256, 1024), n_windows=3)
    model = Decoder(Shape(600, 1, 1, 8))
    for n in reading.lengths:
        sweep.on_text(model, n, reading, [], None)
    assert ends[:3] == ends[3:] and ends[0] != ends[1]


def test_a_head_that_is_never_critical_has_no_power() -> None:
    """Without positions equal bytes have equal keys in the first layer: b_c is infinite there, and that is kept."""
    found = gap_counts(Spec("softmax", "nope", 0, **SIZES), READING, None)
    assert found["critical_multiplier"].shape == (5, 2, 2)
    lost = ~np.isfinite(found["critical_multiplier"]).all(axis=0)
    assert np.array_equal(np.isnan(found["exponent"]), lost)


def test_training_leaves_small_numbers_as_they_were() -> None:
    """A process that goes on treating them as 0 would spoil every sharp test after this one."""
    with denormals_flushed():
        assert float(torch.tensor(1e-310, dtype=torch.float64) * 1) == 0
        with denormals_flushed():  # a decoder is trained between two readings
            pass
        assert float(torch.tensor(1e-310, dtype=torch.float64) * 1) == 0
    assert float(torch.tensor(1e-310, dtype=torch.float64) * 1) == 1e-310
