"""The streaming kernels against the plain torch program, a jitted JAX one and this machine's own rates, in one run.

Run with `make bench` or `python -m benchmarks.context [PART ...]`; PART is one of contraction, memory, million, energy.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import torch

from attnlim.context import contraction, jacobian_energy, jacobian_energy_estimate, layer, naive
from attnlim.context.samplers import gaussian_tokens
from attnlim.core.memory import peak_bytes
from benchmarks.machine import rates, write

N_TOKENS, RHO = 4096, 0.5
GAMMAS = [0.5 * k for k in range(11)]
N_ROWS = 6500  # so that the relative standard error of λ is below 1 % at every γ


def alternated(programs: Mapping[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Median seconds of each program, all of them in turn in every round after one that warms up."""
    times: dict[str, list[float]] = {name: [] for name in programs}
    for round_ in range(repeats + 1):
        for name, program in programs.items():
            start = time.perf_counter()
            program()
            if round_:
                times[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in times.items()}


def plain_contraction(x: torch.Tensor, betas: list[float]) -> list[float]:
    """The program that one would write first: the whole n × n matrices, one β after the other."""
    y = x / x.norm(dim=1, keepdim=True)
    gram = y @ y.T
    pairs = torch.ones_like(gram, dtype=torch.bool).triu_(1)
    values = []
    for beta in betas:
        after = torch.softmax(beta * gram, dim=1) @ y
        after = after / after.norm(dim=1, keepdim=True)
        ratio = (1 - after @ after.T) / (1 - gram)
        values.append(float(ratio[pairs].mean()))
    return values


def jax_contraction(x: torch.Tensor, betas: list[float]) -> Callable[[], list[float]]:
    """The same program in JAX, compiled as a whole."""
    import jax
    import jax.numpy as jnp

    n = len(x)

    @jax.jit
    def program(x: Any, betas: Any) -> Any:
        y = x / jnp.linalg.norm(x, axis=1, keepdims=True)
        gram = y @ y.T
        pairs = jnp.triu(jnp.ones((n, n), bool), 1)

        def at(beta: Any) -> Any:
            after = jax.nn.softmax(beta * gram, axis=1) @ y
            after = after / jnp.linalg.norm(after, axis=1, keepdims=True)
            return jnp.where(pairs, (1 - after @ after.T) / (1 - gram), 0.0).sum() / (n * (n - 1) / 2)

        return jax.lax.map(at, betas)

    x_jax, betas_jax = jnp.asarray(x.numpy()), jnp.asarray(betas, dtype=jnp.float32)
    return lambda: [float(value) for value in program(x_jax, betas_jax).block_until_ready()]


def contraction_over_a_grid(width: int) -> dict[str, Any]:
    """λ over 11 γ at n = 4096 in float32."""
    x = gaussian_tokens(N_TOKENS, width, RHO, seed=0).float()
    betas = [gamma * math.log(N_TOKENS) for gamma in GAMMAS]
    programs: dict[str, Callable[[], Any]] = {
        "attnlim": lambda: contraction(x, betas, each_pair=False).value.tolist(),
        "attnlim_each_pair": lambda: contraction(x, betas).value.tolist(),
        "plain_torch": lambda: plain_contraction(x, betas),
    }
    if width < 512:  # there XLA's product on a CPU takes minutes
        programs["jitted_jax"] = jax_contraction(x, betas)
    seconds = alternated(programs, 5 if width < 512 else 3)
    machine, n_pairs, n_betas = rates(), N_TOKENS**2, len(betas)
    # matrix products: the scores before (whole) and among pairs (half), and for each β the means and the angles (half)
    flops = 2 * n_pairs * width * (1.5 + 1.5 * n_betas)
    limit = flops / machine["float32_matmul_flops"] + n_betas * n_pairs / machine["float32_multiply"]
    exact = contraction(x.double(), betas).value
    worst = {name: max(abs(a - b) for a, b in zip(program(), exact, strict=True)) for name, program in programs.items()}
    few = x[:128].double().numpy()
    start = time.perf_counter()
    naive.contraction(few, betas[5])
    twin = (time.perf_counter() - start) * (N_TOKENS / 128) ** 2 * n_betas
    return {
        "seconds": seconds,
        **{f"times_{name}": seconds[name] / seconds["attnlim"] for name in programs if name != "attnlim"},
        "times_twin": twin / seconds["attnlim"],
        "matmul_share": flops / machine["float32_matmul_flops"] / seconds["attnlim"],
        "limit_seconds": limit,
        "largest_error_of_lambda": worst,
        **machine,
    }


def memory() -> dict[str, Any]:
    """Peak memory above torch's own of λ, exact at n = 10^5, d = 64 and 11 γ, each in a process of its own."""
    torch_alone, whole = child("torch"), child("contraction")
    return {
        "n_tokens": 10**5,
        "width": 64,
        "betas": len(GAMMAS),
        "gib_above_torch": (whole["peak_bytes"] - torch_alone["peak_bytes"]) / 2**30,
        "seconds": whole["seconds"],
        "values": whole["values"],
        "n_by_n_gib": 10**10 * 4 / 2**30,
    }


def child(what: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.context", "--child", what]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def in_child(what: str) -> None:
    start, values = time.perf_counter(), None
    x = gaussian_tokens(10**5, 64, RHO, seed=0).float() if what == "contraction" else torch.rand(512, 512)
    if what == "contraction":
        values = contraction(x, [gamma * math.log(len(x)) for gamma in GAMMAS]).value.tolist()
    else:
        (x @ x).exp_()  # the libraries' own buffers
    print(json.dumps({"peak_bytes": peak_bytes(), "seconds": time.perf_counter() - start, "values": values}))


def million() -> dict[str, Any]:
    """λ and η at n = 10^6, d = 64 and 11 γ from sampled rows."""
    x = gaussian_tokens(10**6, 64, RHO, seed=0).float()
    betas = [gamma * math.log(len(x)) for gamma in GAMMAS]
    start = time.perf_counter()
    found = contraction(x, betas, rows=N_ROWS)
    return {
        "rows": N_ROWS,
        "seconds": time.perf_counter() - start,
        "values": found.value.tolist(),
        # λ is 0 at γ = 0, where every row is the same mean
        "relative_standard_errors": (found.standard_error[1:] / found.value[1:]).tolist(),
    }


def energy() -> dict[str, Any]:
    """η exactly, against automatic differentiation where that fits, and against 32 probes of Hutchinson's estimator."""

    def plain_layer(x: torch.Tensor) -> torch.Tensor:
        y = x / x.norm(dim=1, keepdim=True)
        return torch.softmax(beta * y @ y.T, dim=1) @ y

    small = gaussian_tokens(128, 32, RHO, seed=0).float()
    beta = 2 * math.log(len(small))
    seconds = alternated(
        {
            "attnlim": lambda: jacobian_energy(small, beta),
            "jacobian": lambda: torch.autograd.functional.jacobian(plain_layer, small, vectorize=True),
        }
    )
    x = gaussian_tokens(1024, 32, RHO, seed=0).float()
    beta = 2 * math.log(len(x))
    large = alternated(
        {
            "attnlim": lambda: jacobian_energy(x, beta),
            "32_probes_plain": lambda: jacobian_energy_estimate(plain_layer, x, probes=32),
            "layer": lambda: layer(x, beta),
        }
    )
    estimate = jacobian_energy_estimate(plain_layer, x, probes=32)
    return {
        "n_128": {**seconds, "times_jacobian": seconds["jacobian"] / seconds["attnlim"]},
        "n_1024": {
            **large,
            "times_32_probes": large["32_probes_plain"] / large["attnlim"],
            "exact": jacobian_energy(x, beta).total,
            "estimate": estimate.value,
            "estimate_standard_error": estimate.standard_error,
        },
    }


def main() -> None:
    parts = {
        "contraction": lambda: {f"d_{width}": contraction_over_a_grid(width) for width in (32, 512, 2)},
        "memory": memory,
        "million": million,
        "energy": energy,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=", ".join(parts))
    parser.add_argument("--child", choices=("torch", "contraction"))
    given = parser.parse_args()
    if given.child:
        in_child(given.child)
        return
    for name in given.parts or parts:
        write(name, parts[name]())


if __name__ == "__main__":
    main()
