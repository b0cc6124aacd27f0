"""`attnlim reproduce`: every figure and claim of a paper, recomputed, with a verdict each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnlim.cli.reproducing import Asked, Paper, reproduce

if TYPE_CHECKING:
    from attnlim.core.cells import Cell
    from attnlim.lab.critical_run import Reproduction
    from attnlim.lab.uniform_run import UniformReproduction

app = typer.Typer(help="Recompute every figure and claim of a paper, with a verdict each.", no_args_is_help=True)

Seed = Annotated[int, typer.Option(help="Of everything random.")]
Out = Annotated[Path | None, typer.Option(help="The run's folder. Default: runs/reproduce-PAPER.")]
Overwrite = Annotated[bool, typer.Option(help="Replace a finished run.")]
DryRun = Annotated[bool, typer.Option(help="Print what would run, with time and memory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Cluster = Annotated[
    str | None, typer.Option(help="local (processes here) or a Dask scheduler such as tcp://10.0.0.1:8786.")
]
Workers = Annotated[int | None, typer.Option(help="Processes of --cluster local. Default: cores/threads.")]
Threads = Annotated[int | None, typer.Option(help="Threads inside a cell. Default: all cores, with --cluster one.")]


@app.callback()
def _papers() -> None:
    """Recompute every figure and claim of a paper, with a verdict each."""


@app.command("critical")
def critical(
    full: Annotated[bool, typer.Option("--full", help="The paper's size, n = 2048; else a laptop's minutes.")] = False,
    seed: Seed = 0,
    out: Out = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    cluster: Cluster = None,
    workers: Workers = None,
    threads: Threads = None,
) -> None:
    """Recompute "Critical attention scaling": figures 1 and 2, finite n, and a table with a verdict for every claim.

    Exit code 1 where a verdict is another than the one that this repository records.
    """
    asked = Asked(full, seed, out, overwrite, dry_run, as_json, cluster, workers, threads)
    reproduce(_critical, "critical", asked)


@app.command("uniform")
def uniform(
    full: Annotated[bool, typer.Option("--full", help="L to 1024 and N to 512; else a laptop's minutes.")] = False,
    seed: Seed = 0,
    out: Out = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    cluster: Cluster = None,
    workers: Workers = None,
    threads: Annotated[
        int, typer.Option(help="Threads inside a cell; more than one gains little, --cluster local uses more cores.")
    ] = 1,
) -> None:
    """Recompute "Uniform scaling limits of AdamW-trained transformers": training onto the limit, rates, every lemma.

    Exit code 1 where a verdict is another than the one that this repository records.
    """
    asked = Asked(full, seed, out, overwrite, dry_run, as_json, cluster, workers, threads)
    reproduce(_uniform, "uniform", asked)


def _critical() -> Paper:
    from attnlim.lab.critical_estimate import estimate
    from attnlim.lab.critical_run import make_reproduction, run_reproduction

    return Paper(make_reproduction, _critical_headline, estimate, run_reproduction, _critical_group)


def _uniform() -> Paper:
    from attnlim.lab.uniform_estimate import estimate
    from attnlim.lab.uniform_run import make_uniform, run_uniform

    return Paper(make_uniform, _uniform_headline, estimate, run_uniform, _uniform_group)


def _critical_headline(plan: Reproduction) -> list[str]:
    size = plan.size
    return [
        f"Critical attention scaling · {size.name} size · n = {size.n_tokens}, d = {', '.join(map(str, size.widths))} and the simplex",
        f"{len(size.rho)} ρ × {len(size.gamma)} γ · {size.draws} draws · drawn tokens up to {max(size.window_n):,} · seed {plan.seed}",
    ]


def _critical_group(cell: Cell) -> str:
    part, arguments = cell.arguments["part"], cell.arguments
    if part == "planes":
        return f"figures 1 and 2, d = {arguments['width']}"
    if part == "window":
        return f"the window, n = {arguments['n_tokens']}"
    return "the other claims"


def _uniform_headline(plan: UniformReproduction) -> list[str]:
    size = plan.size
    return [
        f"Uniform scaling limits of AdamW-trained transformers · {size.name} size · L to {size.rates_layers[-1]}, "
        f"H to {size.rates_heads[-1]}",
        f"steps {', '.join(map(str, size.rates_steps))} · {size.inits} inits · limit of {size.particles:,} particles at "
        f"4 nodes · seed {plan.seed}",
    ]


def _uniform_group(cell: Cell) -> str:
    return cell.key.partition(".")[0]
