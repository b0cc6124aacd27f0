"""Training by the explicit equations against plain torch programs, the slow twin and this machine's own rates, in one run.

Run with `make bench` or `python -m benchmarks.depth`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from attnlim.core.memory import peak_bytes
from attnlim.depth import AdamW, MomentLoss, adjoint, forward, initial_parameters, naive, training
from attnlim.depth.costates import layer_adjoint
from attnlim.depth.network import layer_output
from benchmarks.context import alternated
from benchmarks.machine import rates, seconds, write

N_LAYERS, N_HEADS, SIZE, N_TOKENS, N_SEQUENCES = 64, 16, 4, 8, 4  # SIZE is both head_dim and width
N_REPLICAS, N_STEPS = 16, 4
SETTINGS = {"lr": 0.1, "weight_decay": 0.1, "eps": 1e-3}


def problem(n_replicas: int = N_REPLICAS, n_tokens: int = N_TOKENS) -> tuple[Tensor, Tensor, Tensor]:
    """Parameters, tokens and targets of independent replicas."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(n_replicas, N_SEQUENCES, n_tokens, SIZE, generator=rng, dtype=torch.float64)
    target = torch.randn(n_replicas, N_SEQUENCES, SIZE, generator=rng, dtype=torch.float64)
    return initial_parameters(N_LAYERS, N_HEADS, SIZE, SIZE, n_replicas=n_replicas), x, target


def explicit(theta: Tensor, x: Tensor, target: Tensor) -> Tensor:
    """(n_steps+1, n_replicas), the losses of a run of this library."""
    run = training(
        theta,
        x,
        MomentLoss(target),
        lambda params, n_layers, n_heads: AdamW(params, n_layers, n_heads, **SETTINGS),
        n_steps=N_STEPS,
    )
    return torch.stack([state.loss for state in run])


def heads_batched(layer: Tensor, x: Tensor) -> Tensor:
    """Σ_h of one layer (n_heads, 4, head_dim, width) on (n_sequences, N, width), an axis for the heads."""
    query, key, value = (x[:, None] @ layer[:, m].mT for m in range(3))
    attention = torch.softmax(query @ key.mT, dim=-1)
    return (attention @ value @ layer[:, 3]).sum(dim=1)


def one_projection(layer: Tensor, x: Tensor, fused: bool = False) -> Tensor:
    """The same as transformer code is written: one product for all projections, one for the outputs of all heads."""
    n_heads, _, head_dim, _ = layer.shape
    stacked = functional.linear(x, layer[:, :3].transpose(0, 1).flatten(0, 2))
    query, key, value = stacked.unflatten(-1, (3, n_heads, head_dim)).permute(2, 0, 3, 1, 4)
    if fused:
        attended = functional.scaled_dot_product_attention(query, key, value, scale=1.0)
    else:
        attended = torch.softmax(query @ key.mT, dim=-1) @ value
    return attended.transpose(1, 2).flatten(2) @ layer[:, 3].flatten(0, 1)


def heads_in_a_loop(layer: Tensor, x: Tensor) -> Tensor:
    """The same as the equation is written: one head after the other."""
    terms = []
    for query, key, value, output in layer:
        attention = torch.softmax((x @ query.T) @ (x @ key.T).mT, dim=-1)
        terms.append(attention @ (x @ value.T) @ output)
    return torch.stack(terms).sum(dim=0)


def plain(
    summed_heads: Callable[[Tensor, Tensor], Tensor], theta: Tensor, x: Tensor, target: Tensor, n_steps: int = N_STEPS
) -> Tensor:
    """A run by automatic differentiation and torch.optim.AdamW, one replica after the other.

    As :func:`explicit` it has the gradients of all states, the last one's too.
    """
    scale = theta.shape[1] * theta.shape[2]
    losses = []
    for start, data, wanted in zip(theta, x, target, strict=True):
        parameter = torch.nn.Parameter(start.clone())
        optimiser = torch.optim.AdamW([parameter], **{**SETTINGS, "eps": SETTINGS["eps"] / scale})
        for step in range(n_steps + 1):
            now = data
            for layer in parameter:
                now = now + summed_heads(layer, now) / scale
            loss = (now.mean(dim=1) - wanted).square().sum(dim=-1).mean() / 2
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
            if step < n_steps:
                optimiser.step()
    return torch.stack(losses).view(len(theta), n_steps + 1).T


PLAIN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "heads_batched": heads_batched,
    "one_projection": one_projection,
    "fused_attention": partial(one_projection, fused=True),
}


def runs(n_threads: int) -> dict[str, Any]:
    """Seconds of four steps of 16 replicas, and how many times longer the plain programs take."""
    torch.set_num_threads(n_threads)
    given = problem()
    programs: dict[str, Callable[[], Any]] = {"attnlim": lambda: explicit(*given)}
    programs |= {name: partial(plain, summed, *given) for name, summed in PLAIN.items()}
    losses = explicit(*given)
    worst = {name: float((program() - losses).abs().max()) for name, program in programs.items()}
    if max(worst.values()) > 1e-10:
        raise RuntimeError(f"the programs must have the same losses, got differences {worst}")
    median = alternated(programs)
    median["heads_in_a_loop"] = time_of(lambda: plain(heads_in_a_loop, *(part[:2] for part in given))) * N_REPLICAS / 2
    limit = machine_limit()
    return {
        "seconds": median,
        **{f"times_{name}": value / median["attnlim"] for name, value in median.items() if name != "attnlim"},
        "times_twin": twin_seconds() / median["attnlim"],
        "largest_difference_of_losses": worst,
        **limit,
        "times_limit": median["attnlim"] / limit["limit_seconds"],
    }


def time_of(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def twin_seconds() -> float:
    """What the slow twin would take for the whole run, from one layer, head, sequence and replica."""
    theta, x, target = (part[0] for part in problem(n_replicas=1))
    one, tokens = theta[:1, :1].numpy(), x[0].numpy()
    terminal = np.broadcast_to(target[0].numpy(), tokens.shape)

    def pass_() -> None:
        naive.adjoint(one, naive.forward(one, tokens, 1.0), terminal, 1.0)

    return seconds(pass_) * N_LAYERS * N_HEADS * N_SEQUENCES * N_REPLICAS * (N_STEPS + 1)


def machine_limit() -> dict[str, float]:
    """The run's operations at the rates of large products and of exponentials, which no product of this size reaches."""
    machine = rates()
    in_tokens = 2 * N_TOKENS**2 * SIZE * N_SEQUENCES  # a product with an N × N matrix, in every sequence
    in_width = 2 * N_TOKENS * SIZE**2 * N_SEQUENCES
    of_head = 2 * SIZE**3
    # forward 2, again 2 and 4 in the adjoint; 2 and 5; products of a head's matrices 2, again 2, and its gradients 4
    flops = 8 * in_tokens + 7 * in_width + 8 * of_head
    exponentials = 2 * N_TOKENS**2 * N_SEQUENCES
    times = N_LAYERS * N_HEADS * N_REPLICAS * (N_STEPS + 1)
    products, exponential = (
        times * flops / machine["float64_matmul_flops"],
        times * exponentials / machine["float64_exp"],
    )
    return {
        "flops": times * flops,
        "exponentials": times * exponentials,
        "limit_seconds": products + exponential,
        "float64_matmul_flops": machine["float64_matmul_flops"],
        "float64_exp": machine["float64_exp"],
    }


def limit_layer() -> dict[str, float]:
    """A layer of the limit's solver: 4 nodes of 1024 heads on 20 sequences, against automatic differentiation."""
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(0)
    theta = initial_parameters(4, 1024, SIZE, SIZE)
    x, a = (torch.randn(4, 20, N_TOKENS, SIZE, generator=rng, dtype=torch.float64) for _ in range(2))
    log_weights = torch.full(x.shape[:-1], 1 / N_TOKENS, dtype=torch.float64).log()

    def by_autograd() -> None:
        for heads, tokens, costate in zip(theta, x, a, strict=True):
            leaves = heads.clone().requires_grad_(), tokens.clone().requires_grad_()
            torch.autograd.grad((one_projection(*leaves) * costate).sum(), leaves)

    median = alternated(
        {
            "output": lambda: layer_output(theta, x, log_weights, 1.0, False),
            "adjoint": lambda: layer_adjoint(theta, x, a, log_weights, 1.0, False),
            "autograd": by_autograd,
        }
    )
    return {**median, "times_autograd": median["autograd"] / median["adjoint"]}


def cost() -> dict[str, Any]:
    """Seconds of one forward pass and adjoint as L·H doubles, and the slope of their logarithms."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name, sizes in {
        "layers_at_16_heads": [(n, 16) for n in (8, 16, 32, 64, 128)],
        "heads_at_8_layers": [(8, n) for n in (16, 32, 64, 128, 256)],
    }.items():
        times = []
        for n_layers, n_heads in sizes:
            theta = initial_parameters(n_layers, n_heads, SIZE, SIZE, n_replicas=N_REPLICAS)
            x = problem()[1]

            def work(theta: Tensor = theta, x: Tensor = x) -> None:
                tokens = forward(theta, x)
                adjoint(theta, tokens, tokens[-1])

            times.append(seconds(work))
        products = [n_layers * n_heads for n_layers, n_heads in sizes]
        slope = float(np.polyfit(np.log(products), np.log(times), 1)[0])
        found[name] = {"products": products, "seconds": times, "slope": slope}
    return found


def memory() -> dict[str, Any]:
    """Peak memory above what importing takes, each program in a process of its own, in MiB."""
    found: dict[str, Any] = {}
    for n_replicas, n_tokens in ((1, N_TOKENS), (1, 64), (N_REPLICAS, N_TOKENS)):
        base = child("imports", n_replicas, n_tokens)
        at = {name: (child(name, n_replicas, n_tokens) - base) / 2**20 for name in ("attnlim", "heads_batched")}
        found[f"{n_replicas}_replicas_{n_tokens}_tokens"] = at
    return {
        "mib": found,
        "parameters_of_a_replica_mib": N_LAYERS * N_HEADS * 4 * SIZE**2 * 8 / 2**20,
        "attention_mib_of_64_tokens": N_LAYERS * N_HEADS * N_SEQUENCES * 64**2 * 8 / 2**20,
    }


def child(what: str, n_replicas: int, n_tokens: int) -> int:
    command = [sys.executable, "-m", "benchmarks.depth", "--child", what, str(n_replicas), str(n_tokens)]
    return int(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def in_child(what: str, n_replicas: int, n_tokens: int) -> None:
    torch.set_num_threads(1)
    given = problem(n_replicas, n_tokens)
    explicit(*(part[:1, :1] if part is given[0] else part[:1] for part in given))  # the libraries' own buffers
    if what == "attnlim":
        explicit(*given)
    elif what != "imports":
        plain(PLAIN[what], *given)
    print(peak_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=3, metavar=("PROGRAM", "REPLICAS", "TOKENS"))
    given = parser.parse_args()
    if given.child:
        what, n_replicas, n_tokens = given.child
        in_child(what, int(n_replicas), int(n_tokens))
        return
    n_cores = os.cpu_count() or 1
    figures = {f"{n}_threads": runs(n) for n in sorted({1, n_cores})}
    figures |= {"limit_layer": limit_layer(), "cost": cost(), "memory": memory()}
    torch.set_num_threads(n_cores)
    write("depth", figures)


if __name__ == "__main__":
    main()
