"""Training of one decoder on text and recall, with what its heads do at checkpoints.

Batches begin short and dense with pairs, so that recall is learned in the first minute; then come the trained length and
half as many pairs a token. Even rows of a batch hold pairs amid text, odd ones text alone. Matrices are trained by Muon,
embeddings, gains and learned factors by AdamW: with AdamW alone recall took several times as long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from attnlim.context.phases import focus_exponent
from attnlim.core.cells import Arrays, Cell
from benchmarks.length.data import VOCABULARY, batch_stream, skipped_positions, splits, stretch, training_recall
from benchmarks.length.decoder import Decoder, Parametrisation, Positions, Shape
from benchmarks.length.rows import RowWatch, octaves

TRAINED, LONGEST = 256, 4096
SHORT, SHORT_SHARE = 64, 0.3  # the length that training begins with, and for which share of the steps
LEARNING_RATE, MATRIX_RATE, WEIGHT_DECAY = 3e-3, 0.02, 0.1
WARM_UP, COOL_DOWN, LEAST_RATE = 20, 0.5, 0.02  # steps; share of them; share of the rate at the end
PROBE_SEQUENCES, PROBE_SHORTEST = 8, 32
CHECKPOINTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class Spec:
    """One run: what is trained, and how much.

    Attributes:
        parametrisation: of the factor on the logits.
        positions: "nope", "rope" with distances up to ``longest`` shown by skips, or "rope unseen" without.
        seed: of weights and batches; the same for every parametrisation.
        n_steps: of training.
        tokens: a step.
        n_layers, n_heads, width: of the decoder.
    """

    parametrisation: Parametrisation
    positions: Positions
    seed: int
    n_steps: int = 500
    tokens: int = 2048
    n_layers: int = 4
    n_heads: int = 4
    width: int = 128

    @property
    def name(self) -> str:
        """Fit for a file name."""
        return f"{self.parametrisation}-{self.positions.replace(' ', '_')}-{self.seed}"

    @property
    def shape(self) -> Shape:
        """Of its decoder."""
        return Shape(VOCABULARY, self.n_layers, self.n_heads, self.width, self.parametrisation, self.positions)

    def cell(self) -> Cell:
        """The run as a cell of :func:`attnlim.core.cells.run_cells`; other settings are another cell."""
        settings = "-".join(str(value) for value in list(asdict(self).values())[3:])
        return Cell(f"train-{self.name}-{settings}", {"spec": self})


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Numbers below the normal range count as 0: they slow a CPU down. The whole process is set, so it is set back."""
    flushed_before = float(torch.tensor(1e-310, dtype=torch.float64) * 1) == 0  # torch sets it, but does not tell
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed_before)


def trained(spec: Spec) -> Arrays:
    """Train a decoder: its weights as ``weights.NAME``, the curves of training and what checkpoints show."""
    with denormals_flushed():
        return _trained(spec)


def _trained(spec: Spec) -> Arrays:
    model = Decoder(spec.shape, spec.seed)
    optimisers = make_optimisers(model)
    rates = [[group["lr"] for group in one.param_groups] for one in optimisers]
    rng = batch_stream(spec.seed, "train")
    stops = {round(share * spec.n_steps) for share in CHECKPOINTS}
    curve: list[tuple[float, ...]] = []
    shown: list[tuple[int, Arrays]] = []
    begin = time.process_time()
    with torch.no_grad():  # the critical parametrisation's ρ̂ at the start
        tokens, positions, _ = batch(spec, 1.0, batch_stream(spec.seed, "start"))
        model.train()(tokens, positions)
    for step in range(spec.n_steps + 1):
        if step in stops:
            shown.append((step, checkpoint(model)))
        if step == spec.n_steps:
            break
        tokens, positions, asked = batch(spec, step / spec.n_steps, rng)
        for one, usual in zip(optimisers, rates, strict=True):
            for group, rate in zip(one.param_groups, usual, strict=True):
                group["lr"] = rate * schedule(step, spec.n_steps)
            one.zero_grad()
        model.train()
        logits, _ = model(tokens[:, :-1], None if positions is None else positions[:, :-1])
        nll = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
        nll.mean().backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for one in optimisers:
            one.step()
        each = nll.detach().view(len(tokens), -1)
        right = logits.detach()[asked[:, 0], asked[:, 1]].argmax(dim=-1) == tokens[asked[:, 0], asked[:, 1] + 1]
        curve.append(
            (float(each[1::2].mean()), float(each[asked[:, 0], asked[:, 1]].mean()), float(right.float().mean()))
        )
    names = sorted(shown[0][1])
    return {
        **{f"weights.{name}": value.numpy() for name, value in model.state_dict().items()},
        **{f"curve.{name}": np.array(values) for name, values in zip(("text", "recall", "accuracy"), zip(*curve, strict=True), strict=True)},
        "checkpoint.step": np.array([step for step, _ in shown]),
        **{f"checkpoint.{name}": np.stack([arrays[name] for _, arrays in shown]) for name in names},
        "seconds": np.array(time.process_time() - begin),
    }  # fmt: skip


def schedule(step: int, n_steps: int) -> float:
    """The share of the learning rate at a step: up, level, down in a line."""
    left = (1 - step / n_steps) / COOL_DOWN
    return min(1.0, (step + 1) / WARM_UP) * max(LEAST_RATE, min(1.0, left))


def make_optimisers(model: Decoder) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the blocks, AdamW for the rest."""
    named = list(model.named_parameters())
    matrices = [value for name, value in named if value.ndim == 2 and name.startswith("blocks")]
    rest = [value for name, value in named if not (value.ndim == 2 and name.startswith("blocks"))]
    return [
        torch.optim.Muon(matrices, lr=MATRIX_RATE, weight_decay=WEIGHT_DECAY),
        torch.optim.AdamW(rest, lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def batch(spec: Spec, done: float, rng: np.random.Generator) -> tuple[Tensor, Tensor | None, Tensor]:
    """Tokens (B, n), their positions where skips are trained, and (n_asked, 2) row and column of the keys asked."""
    text = splits().train
    short = done < SHORT_SHARE
    n = SHORT if short else TRAINED
    n_items = n * 3 // 8 if short else n * 5 // 32
    rows, asked = [], []
    for row in range(spec.tokens // n):
        if row % 2:
            rows.append(stretch(text, n, rng))
        else:
            recall = training_recall(text, n, n_items, rng)
            rows.append(recall.tokens)
            asked += [(row, int(column)) for column in recall.asked]
    # drawn whether or not they are used: every arm of a seed reads the same batches
    skips = np.stack([skipped_positions(n, LONGEST, rng) for _ in rows])
    positions = torch.from_numpy(skips) if spec.positions == "rope" else None
    return torch.from_numpy(np.stack(rows)), positions, torch.tensor(asked)


@torch.no_grad()
def checkpoint(model: Decoder) -> Arrays:
    """ρ̂ of each layer's tokens, κ over octaves of a row's visible keys, and γ_h and ρ̂_h where the factor has them.

    Measured on text for gap counts at the trained length.
    """
    text = splits().calibrate
    n_tokens = min(TRAINED, len(text) // PROBE_SEQUENCES)
    starts = np.arange(PROBE_SEQUENCES) * (len(text) // PROBE_SEQUENCES)
    tokens = torch.from_numpy(np.stack([text[start : start + n_tokens] for start in starts]))
    watch = RowWatch(torch.arange(n_tokens), cosines=True)
    was = model.training
    model.eval()
    model(tokens, watch=watch)
    model.train(was)
    groups = octaves(n_tokens, PROBE_SHORTEST)
    entropy = np.stack([watch.layers("entropy").mean(axis=1)[..., rows].mean(axis=-1) for rows in groups], axis=-1)
    found = {
        "rho": watch.layers("rho").mean(axis=1),
        "kappa": focus_exponent([np.log(rows + 1).mean() for rows in groups], entropy),
        "entropy": entropy[..., -1],
    }
    attentions = [block.attention for block in model.layers]
    if model.shape.parametrisation == "critical":
        found["head_rho"] = np.stack([one.rho.numpy().copy() for one in attentions])
        found["gain"] = np.stack([one.log_gain.exp().numpy() for one in attentions])
    if model.shape.parametrisation == "ssmax":
        found["scale"] = np.stack([one.scale.numpy().copy() for one in attentions])
    return found


def decoder(spec: Spec, arrays: Arrays) -> Decoder:
    """The trained decoder of a run."""
    model = Decoder(replace(spec.shape), spec.seed)
    prefix = "weights."
    model.load_state_dict(
        {
            name.removeprefix(prefix): torch.from_numpy(value)
            for name, value in arrays.items()
            if name.startswith(prefix)
        }
    )
    return model.eval()


def all_specs(n_seeds: int = 3, **sizes: int) -> list[Spec]:
    """Every run, one seed after the other, so that an interrupted benchmark has whole seeds."""
    arms: list[tuple[Parametrisation, Positions]] = [
        (parametrisation, positions)
        for positions in ("nope", "rope")
        for parametrisation in ("softmax", "ssmax", "critical")
    ]
    arms.append(("softmax", "rope unseen"))
    return [
        Spec(parametrisation, positions, seed, **sizes)
        for seed in range(n_seeds)
        for parametrisation, positions in arms
    ]
