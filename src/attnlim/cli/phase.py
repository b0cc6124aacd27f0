"""`attnlim phase`: phase diagrams on synthetic or one's own tokens, from a grid to a sentence, a figure and a table."""

from __future__ import annotations

import json
import math
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlim.cli.number_lists import numbers, whole_numbers
from attnlim.cli.sweep_words import place, say, tell, would_run
from attnlim.core.checks import installed, one_of

if TYPE_CHECKING:
    import xarray as xr

    from attnlim.core.cells import Cell
    from attnlim.lab.phase_grid import PhaseGrid

CAUSAL = {"no": (False,), "yes": (True,), "both": (False, True)}
RANDOM, WITH_RHO = ("gaussian", "half-sphere", "sphere"), ("gaussian", "simplex")
# what --quick takes where an option does not say otherwise
QUICK_DRAWS = 2
QUICK: dict[str, str] = {
    "n": "256",
    "d": "2,32,128",
    "rho": "0.1:0.9:9",
    "gamma": "0:4:41",
}


def command(
    n: Annotated[str | None, typer.Option("--n", help="Numbers of tokens, such as 512,2k. Default: 512.")] = None,
    d: Annotated[str | None, typer.Option("--d", help="Dimensions. Default: 2,32,512; n for the simplex.")] = None,
    rho: Annotated[str | None, typer.Option(help="Cosines, a list or start:stop:count. Default: 0.1:0.9:9.")] = None,
    gamma: Annotated[str | None, typer.Option(help="Values of β/ln n, likewise. Default: 0:4:41.")] = None,
    alpha: Annotated[str, typer.Option(help="Residual factors, likewise.")] = "0",
    causal: Annotated[str, typer.Option(help="With a causal mask: no, yes or both.")] = "no",
    draws: Annotated[
        int | None, typer.Option(help="Token sets of each kind: the units of standard errors. Default: 4 if random.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the tokens, and of sampled rows and probes.")] = 0,
    tokens: Annotated[
        str,
        typer.Option(help="gaussian, simplex, half-sphere, sphere, a .npy or .safetensors file, or MODEL:LAYER."),
    ] = "gaussian",
    text: Annotated[str | None, typer.Option(help="A UTF-8 file for MODEL to read.")] = None,
    measure: Annotated[str | None, typer.Option(help="Of contraction,eta,focus. Default: all.")] = None,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    rows: Annotated[int | None, typer.Option(help="Attention rows to sample where n is larger. Default: all.")] = None,
    probes: Annotated[int | None, typer.Option(help="Random probes for the costly part of η. Default: exact.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder. Default: runs/phase.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a finished run.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Print what would run, with time and memory.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
    quick: Annotated[bool, typer.Option(help="A small grid, in seconds; other options still hold.")] = False,
    cluster: Annotated[
        str | None, typer.Option(help="local (processes here) or a Dask scheduler such as tcp://10.0.0.1:8786.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes of --cluster local. Default: cores/threads.")] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads inside a cell. Default: all cores, with --cluster one.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Such as cpu or cuda:1. Default: cuda if there is one here.")
    ] = None,
) -> None:
    """Draw the phase diagram of contraction and gradients over any grid of sizes, cosines and inverse temperatures."""
    if quick:
        # what does not fit the tokens is left to the full defaults
        fits = {"n": True, "d": tokens in RANDOM, "rho": tokens in WITH_RHO, "gamma": True}
        given = {"n": n, "d": d, "rho": rho, "gamma": gamma}
        chosen = {name: QUICK[name] if value is None and fits[name] else value for name, value in given.items()}
        n, d, rho, gamma = (chosen[name] for name in ("n", "d", "rho", "gamma"))
        draws = QUICK_DRAWS if draws is None and tokens in RANDOM else draws
    asked: dict[str, Any] = {
        "n_tokens": None if n is None else whole_numbers("--n", n),
        "width": None if d is None else whole_numbers("--d", d),
        "rho": None if rho is None else numbers("--rho", rho),
        "gamma": None if gamma is None else numbers("--gamma", gamma),
        "alpha": numbers("--alpha", alpha),
        "causal": CAUSAL[one_of("--causal", causal, CAUSAL)],
        "measure": None if measure is None else [word.strip() for word in measure.split(",")],
    }
    for module, group in (("plotly", "report"), ("matplotlib", "report")):
        installed(module, group)
    from attnlim.core.runs import refuse_finished
    from attnlim.lab.dask_tasks import LOCAL, check_cluster
    from attnlim.lab.phase_grid import make_grid

    folder = out or Path("runs") / ("phase-quick" if quick else "phase")
    if not dry_run:
        refuse_finished(folder, overwrite)
    check_cluster(cluster, workers)
    if threads is None and cluster is not None:
        threads = 1
    grid = make_grid(
        tokens, **asked, draws=draws, seed=seed, dtype=dtype, rows=rows, probes=probes, threads=threads, device=device,
        text=text, elsewhere=cluster not in (None, LOCAL),
    )  # fmt: skip
    say(_headline(grid, cluster, workers), as_json)
    if dry_run:
        from attnlim.lab.phase_estimate import estimate

        would_run(grid.cells(), folder, partial(estimate, grid), grid.threads, cluster, workers, as_json)
        return
    arguments = {
        **{name: value for name, value in grid.identity().items() if name not in ("kind", "schema", "tokens_sha256")},
        "text": text, "out": str(folder), "quick": quick, "cluster": cluster, "workers": workers,
    }  # fmt: skip
    dataset, retried = _run(grid, folder, arguments, overwrite, cluster, workers)
    _show(dataset, folder, retried, quick, as_json)


def _headline(grid: PhaseGrid, cluster: str | None, workers: int | None) -> str:
    kind = f"{grid.tokens.name} tokens" if grid.tokens.sampled else f"tokens from {grid.tokens.name}"
    sizes = f"n = {_values(grid.n_tokens)} · d = {_values(grid.width)}"
    cosines = "" if math.isnan(grid.rho[0]) else f" · ρ = {_values(grid.rho)}"
    lines = [
        f"{kind} · {sizes}{cosines} · γ = {_values(grid.gamma)}",
        f"{', '.join(grid.measure)} · {place(len(grid.cells()), grid.threads, cluster, workers)} · {grid.dtype} on {grid.device} · seed {grid.seed}",
    ]
    return "\n".join(lines)


def _values(values: tuple[float, ...]) -> str:
    if len(values) <= 4:
        return ", ".join(f"{value:g}" for value in values)
    return f"{values[0]:g} … {values[-1]:g} ({len(values)})"


def _run(
    grid: PhaseGrid, folder: Path, arguments: dict[str, Any], overwrite: bool, cluster: str | None, workers: int | None
) -> tuple[xr.Dataset, int]:
    from attnlim.cli.keeping import begin, keep, on_cluster
    from attnlim.cli.progress import progress
    from attnlim.lab.phase_dataset import cells_table
    from attnlim.lab.phase_run import run_grid

    run = begin(folder, arguments, grid, {"tokens": grid.seed}, overwrite)
    with progress(grid.cells(), _group, unit="") as told:
        dataset, retried = run_grid(grid, run.cells, cluster=cluster, workers=workers, progress=told)
    keep(run, dataset, cells_table, "cells.csv", on_cluster(cluster, retried))
    return dataset, retried


def _group(cell: Cell) -> str:
    return f"n = {cell.arguments['n_tokens']}, d = {cell.arguments['width']}"


def _show(dataset: xr.Dataset, folder: Path, retried: int, quick: bool, as_json: bool) -> None:
    from attnlim.lab.phase_words import transitions

    table = transitions(dataset)
    paragraphs = dataset.attrs["verdict"].split("\n")
    if as_json:
        rows = json.loads(table.to_json(orient="records"))
        print(json.dumps(
            {"run": str(folder), "verdict": paragraphs, "transitions": rows, "cells_begun_again": retried}
        ))  # fmt: skip
        return
    width = tell(paragraphs[: 1 if quick else None], retried)
    if quick:
        print(f"figure: {folder / 'figures' / 'phase.png'} · report: {folder / 'report.html'}")
        return
    _print_table(table, width)
    print(f"in {folder}: report.html, figures, data.zarr, cells.csv, run.json")


def _print_table(table: Any, width: int) -> None:
    """The crossings at one ρ, a row for each size, α and mask."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from attnlim.lab.phase_words import shown_cosine

    rho = shown_cosine(table)
    rows = table[table["rho"].isna() if math.isnan(rho) else table["rho"] == rho].to_dict("records")
    varied = [name for name in ("alpha", "causal") if table[name].nunique() > 1]
    heads = {"n_tokens": "n", "width": "d", "alpha": "α", "causal": "causal", "rho_hat": "ρ̂", "gamma": "γ(λ)"}
    heads |= {"gamma_simplex": "simplex", "gamma_c": "γ_c", "gamma_half": "γ_½", "gamma_eta": "γ(η)"}
    heads |= {"spread": "Δγ", "spread_simplex": "simplex"}
    names = [name for name in heads if name not in ("alpha", "causal") or name in varied]
    sheet = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in names:
        sheet.add_column(heads[name], justify="right", no_wrap=True)
    for row in rows:
        sheet.add_row(*(_value(name, row[name]) for name in names))
    print()
    print(textwrap.fill(
        f"where λ and η cross over{'' if math.isnan(rho) else f' at ρ = {rho:g}'}, the threshold γ_c = 1/(1−ρ̂), the "
        "half-weight point γ_½, and Δγ from a tenth to nine tenths of the rise of λ; simplex: its closed form at ρ̂",
        width,
    ))  # fmt: skip
    Console(width=width, highlight=False).print(sheet)


def _value(name: str, value: Any) -> str:
    if name in ("n_tokens", "width"):
        return str(value)
    if name == "causal":
        return "yes" if value else "no"
    return "–" if math.isnan(value) else f"{value:g}" if name == "alpha" else f"{value:.2f}"
