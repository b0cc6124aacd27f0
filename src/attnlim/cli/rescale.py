"""`attnlim rescale MODEL`: compare scaling rules on a real model beyond its trained length, calibrate one, say what to take."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlim.cli.number_lists import whole_numbers
from attnlim.cli.sweep_words import say, tell
from attnlim.core.checks import InputError, installed

if TYPE_CHECKING:
    import xarray as xr

    from attnlim.core.cells import Cell
    from attnlim.rules.rescale_plan import Plan


def command(
    model: Annotated[
        str, typer.Argument(help="A name of `attnlim models list`, a folder, a .gguf file or a hub name.")
    ],
    target: Annotated[str, typer.Option(help="The context to reach, in tokens, such as 16384 or 16k.")],
    rule: Annotated[
        str,
        typer.Option(
            help="Rules to compare with none, by commas; all of them; calibrate: all and a fit; or qwen,calibrate."
        ),
    ] = "all",
    text: Annotated[
        list[Path] | None,
        typer.Option(help="A UTF-8 file, cut into three parts, or three: to calibrate, to stop, to test."),
    ] = None,
    windows: Annotated[
        str, typer.Option(help="Windows of the target to calibrate on, to stop on and to test on.")
    ] = "2,1,2",
    per: Annotated[str, typer.Option(help="What shares a slope of the calibration: head, layer or model.")] = "head",
    audit: Annotated[
        Path | None, typer.Option(help="A run of `attnlim audit`: powers of the critical rule, phases of the heads.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the needles' numbers and of the bootstrap.")] = 0,
    out: Annotated[Path | None, typer.Option(help="The run's folder. Default: runs/rescale-MODEL-TARGET.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a finished run.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Print what would run, with time and memory.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Begin without asking.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
    device: Annotated[str | None, typer.Option(help="Such as cpu or cuda:1. Default: cuda if there is one.")] = None,
    dtype: Annotated[str, typer.Option(help="auto (the checkpoint's own), float32, bfloat16 or float16.")] = "auto",
    device_map: Annotated[str | None, typer.Option(help="accelerate's placement over devices, such as auto.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option(help="Run Python code that comes with the checkpoint. It can do anything that you can.")
    ] = False,
) -> None:
    """Compare scaling rules beyond the trained length of a model, on text and on needles, and say which to take."""
    for module, group in (("transformers", "models"), ("plotly", "report"), ("matplotlib", "report")):
        installed(module, group)
    (length,) = _lengths("--target", target, 1)
    counts = _lengths("--windows", windows, 3)
    from attnlim.core.runs import refuse_finished
    from attnlim.models.loading import load
    from attnlim.models.text import read_text
    from attnlim.rules.rescale_plan import make_plan

    folder = out or Path("runs") / f"rescale-{re.sub(r'[^A-Za-z0-9._-]+', '-', Path(model).name)}-{length}"
    if not dry_run:
        refuse_finished(folder, overwrite)
    texts = [read_text(str(path)) for path in text] if text else [read_text(None)]
    measured = None if audit is None else _audit(audit)
    loaded = load(
        model, device=device, dtype=dtype, device_map=device_map, trust_remote_code=trust_remote_code, head=True
    )
    plan = make_plan(
        loaded,
        texts,
        length,
        [word.strip() for word in rule.split(",")],
        windows=counts,
        per=per,
        audit=measured,
        seed=seed,
    )
    say(_headline(plan), as_json)
    if dry_run or (sys.stdin.isatty() and sys.stdout.isatty() and not yes):
        from attnlim.rules.rescale_estimate import estimate

        if not _announced(plan, folder, estimate(plan), dry_run, as_json):
            return
    arguments = {
        "model": model, "source": loaded.source, "target": length, "rule": rule, "text": [one.name for one in texts],
        "windows": list(counts), "per": per, "audit": None if audit is None else str(audit), "seed": seed, "out": str(folder),
        "device": plan.attributes["device"], "dtype": plan.attributes["dtype"], "device_map": device_map,
        "trust_remote_code": trust_remote_code,
    }  # fmt: skip
    dataset = _run(plan, folder, arguments, overwrite)
    _show(dataset, folder, as_json)


def _lengths(option: str, given: str, count: int) -> tuple[int, ...]:
    found = tuple(whole_numbers(option, given))
    if len(found) != count:
        wanted = "one length, such as 16k" if count == 1 else f"{count} numbers, such as 2,1,2"
        raise InputError(f"{option} must be {wanted}, got {given!r}")
    return found


def _audit(folder: Path) -> xr.Dataset:
    from attnlim.core.runs import open_run

    return open_run(folder)[0]


def _headline(plan: Plan) -> str:
    about = plan.attributes
    note = f" ({about['model_note']})" if about["model_note"] else ""
    sets = ", ".join(f"{len(plan.windows[part])} to {part}" for part in plan.windows if plan.windows[part])
    names = ", ".join(variant.name for variant in plan.variants)
    fit = [*(["constant"] if plan.constants else []), *(["slope", "calibrated"] if plan.starts else [])]
    return "\n".join(
        [
            f"{about['model']}{note} · {plan.shape[0]} layers × {plan.shape[1]} heads · trained to {plan.trained} · target "
            f"{plan.target} ({plan.stretch:g} ×) · {about['attention']}, {about['dtype']} on {about['device']}",
            f"text: {', '.join(about['texts'])}, {sets} · seed {plan.seed}",
            f"rules: {names}{', ' if fit else ''}{', '.join(fit)}",
            *plan.left_out,
        ]
    )


def _announced(plan: Plan, folder: Path, expected: Any, dry_run: bool, as_json: bool) -> bool:
    """Say what a run would take; whether to go on."""
    from attnlim.cli.progress import clock_time

    if as_json:
        print(json.dumps({
            "cells": [cell.key for cell in plan.cells()], "out": str(folder), "seconds": round(expected.seconds, 1),
            "memory_bytes": expected.memory,
        }))  # fmt: skip
    else:
        print(
            f"{len(plan.cells())} cells into {folder}: about {clock_time(expected.seconds)} and "
            f"{expected.memory / 1e9:.1f} GB on this machine"
        )
    return not dry_run and typer.confirm("Continue?", default=True)


def _run(plan: Plan, folder: Path, arguments: dict[str, Any], overwrite: bool) -> xr.Dataset:
    from attnlim.cli.keeping import begin, keep
    from attnlim.cli.progress import progress
    from attnlim.rules.exporting import export, variant_of
    from attnlim.rules.rescale_run import run_plan
    from attnlim.rules.rescale_tables import bucket_table

    run = begin(folder, arguments, plan, {"needles and bootstrap": plan.seed}, overwrite)
    with progress(plan.cells(), _group, unit="") as told:
        dataset = run_plan(plan, run.cells, told)
    export(plan, variant_of(plan, dataset, dataset.attrs["recommended"]), run.partial)
    keep(run, dataset, bucket_table, "variants.csv")
    return dataset


def _group(cell: Cell) -> str:
    if cell.arguments["kind"] == "nll":
        return {"stop": "losses to choose by", "test": "losses of the test text"}[cell.arguments["part"]]
    return {"gradient": "derivatives", "needles": "needles"}[cell.arguments["kind"]]


def _show(dataset: xr.Dataset, folder: Path, as_json: bool) -> None:
    from attnlim.rules.rescale_tables import variant_table

    table = variant_table(dataset)
    paragraphs = dataset.attrs["verdict"].split("\n")
    if as_json:
        print(json.dumps({
            "run": str(folder), "verdict": paragraphs, "recommended": dataset.attrs["recommended"],
            "variants": json.loads(table.to_json(orient="records")),
        }))  # fmt: skip
        return
    width = tell(paragraphs, 0)
    _print_table(table, dataset, width)
    print(f"in {folder}: report.html, figures, data.zarr, variants.csv, run.json")
    how = []
    if (folder / "attnlim" / "rope_parameters.json").exists():
        how.append(f"from_pretrained(..., rope_parameters=json.load(open('{folder}/attnlim/rope_parameters.json')))")
    if (folder / "attnlim" / "rule.json").exists():
        how.append(f"attnlim.rules.load(model, '{folder}')")
    if how:
        print("to use what is recommended:\n  " + "\n  ".join(how))


def _print_table(table: Any, dataset: xr.Dataset, width: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    sheet = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    heads = ("rule", "loss", "less none", "95 % interval", "within, less raw", "needles", "nats each")
    for head in heads:
        sheet.add_column(head, justify="left" if head == "rule" else "right", no_wrap=True)
    for row in table.to_dict("records"):
        same = row["variant"] == "none"
        sheet.add_row(
            row["variant"],
            f"{row['nll']:.4f}",
            "·" if same else f"{row['difference']:+.4f}",
            "·" if same else f"{row['low']:+.4f} to {row['high']:+.4f}",
            "·" if row["variant"] == "raw" else f"{row['within']:+.4f}",
            f"{row['needles']} of {dataset.sizes['needle']}",
            f"{row['needle_nll']:.2f}",
        )
    trained, target = dataset.attrs["trained_length"], dataset.attrs["target"]
    print(f"mean loss, nats: of tokens {trained} to {target}; within, below {trained}; each, of a needle's number")
    Console(width=width, highlight=False).print(sheet)
