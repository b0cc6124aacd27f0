"""`attnlim audit MODEL`: the main job, from a model's name to a verdict, a table and a report."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlim.context.phases import DILUTED_ABOVE, FROZEN_BELOW
from attnlim.core.checks import InputError, installed

if TYPE_CHECKING:
    import xarray as xr

    from attnlim.audit.measure import Plan
    from attnlim.core.cells import Cell
    from attnlim.models.loading import LoadedModel


def command(
    model: Annotated[
        str | None, typer.Argument(help="A name of `attnlim models list`, a folder, a .gguf file or a hub name.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="Lengths in tokens, such as 512,2048,8k. Default: up to 8192, by factors of 4.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="A UTF-8 file, or - for standard input. Default: Python's language reference.")
    ] = None,
    windows: Annotated[int, typer.Option(help="Text windows of every context: the units of all intervals.")] = 4,
    rows: Annotated[int, typer.Option(help="Attention rows looked at in every window.")] = 256,
    seed: Annotated[int, typer.Option(help="Of the sample of rows.")] = 0,
    out: Annotated[Path | None, typer.Option(help="The run's folder. Default: runs/audit-MODEL.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a finished run.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Print what would run, with time and memory.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
    compare: Annotated[
        tuple[Path, Path] | None, typer.Option(metavar="RUN RUN", help="Show two finished audits side by side.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Such as cpu or cuda:1. Default: cuda if there is one.")] = None,
    dtype: Annotated[str, typer.Option(help="auto (the checkpoint's own), float32, bfloat16 or float16.")] = "auto",
    device_map: Annotated[str | None, typer.Option(help="accelerate's placement over devices, such as auto.")] = None,
    k_min: Annotated[int, typer.Option(help="Smallest rank that counts in the gap count b_c.")] = 10,
    diluted_above: Annotated[
        float, typer.Option(help="A head is diluted where κ's interval lies above.")
    ] = DILUTED_ABOVE,
    frozen_below: Annotated[float, typer.Option(help="A head is frozen where κ's interval lies below.")] = FROZEN_BELOW,
    trust_remote_code: Annotated[
        bool, typer.Option(help="Run Python code that comes with the checkpoint. It can do anything that you can.")
    ] = False,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity", help="Measure too which way each head would rather go: about five times the work."
        ),
    ] = False,
) -> None:
    """Measure the attention of a real model: which heads are diluted, sparse or frozen at a context length."""
    if compare is not None:
        if model is not None:
            raise InputError(f"--compare takes two finished runs and no MODEL, got {model!r} too; leave it out")
        _compare(*compare, as_json)
        return
    if model is None:
        raise InputError("audit needs a MODEL, such as smollm2, a folder or a hub name; see `attnlim models list`")
    contexts = None if context is None else parse_contexts(context)
    for module, group in (("transformers", "models"), ("plotly", "report"), ("matplotlib", "report")):
        installed(module, group)
    folder = out or Path("runs") / f"audit-{re.sub(r'[^A-Za-z0-9._-]+', '-', Path(model).name)}"
    from attnlim.audit.assemble import Margins
    from attnlim.audit.measure import SHORTEST_CONTEXT, check_numbers, make_plan
    from attnlim.core.runs import refuse_finished
    from attnlim.models.loading import load, trained_length
    from attnlim.models.text import read_text

    margins = Margins(diluted_above, frozen_below)
    check_numbers(windows, rows, seed, k_min, margins)
    if not dry_run:
        refuse_finished(folder, overwrite)
    written = read_text(text)
    loaded = load(
        model, device=device, dtype=dtype, device_map=device_map, trust_remote_code=trust_remote_code, head=sensitivity
    )
    if contexts is None:
        longest = min(8192, trained_length(loaded.model) or 8192)
        contexts = sorted({max(SHORTEST_CONTEXT, n) for n in (longest // 16, longest // 4, longest)})
    plan = make_plan(
        loaded.model,
        loaded.tokenizer,
        written,
        contexts,
        n_windows=windows,
        n_rows=rows,
        seed=seed,
        k_min=k_min,
        margins=margins,
        name=loaded.name,
        note=loaded.note,
        sensitivity=sensitivity,
    )
    _say(_headline(plan, loaded), as_json)
    if dry_run:
        _dry_run(plan, folder, as_json)
        return
    arguments = {
        "model": model, "source": loaded.source, "context": list(plan.contexts), "text": text or written.name,
        "windows": windows, "rows": rows, "seed": seed, "out": str(folder), "device": plan.attributes["device"],
        "dtype": plan.attributes["dtype"], "device_map": device_map, "k_min": k_min, "diluted_above": diluted_above,
        "frozen_below": frozen_below, "trust_remote_code": trust_remote_code, "sensitivity": sensitivity,
    }  # fmt: skip
    dataset = _run(plan, folder, arguments, overwrite)
    _show(dataset, folder, as_json)


def parse_contexts(given: str) -> list[int]:
    """The lengths in "512,2048,8k" (k is 1024), in tokens.

    Raises:
        InputError: something else stands there.

    >>> parse_contexts("512, 8k")
    [512, 8192]
    """
    lengths = []
    for word in given.split(","):
        found = re.fullmatch(r"\s*(\d+)(k?)\s*", word, re.IGNORECASE)
        if found is None:
            raise InputError(f"--context must be lengths such as 512,2048,8k, got {given!r}")
        lengths.append(int(found[1]) * (1024 if found[2] else 1))
    return lengths


def _headline(plan: Plan, loaded: LoadedModel) -> str:
    note = f" ({loaded.note})" if loaded.note else ""
    n_heads = max(layer.n_heads for layer in plan.parts.layers)
    trained = f" · trained to {plan.attributes['trained_length']}" if plan.attributes["trained_length"] else ""
    lines = [
        f"{loaded.name}{note} · {len(plan.parts.layers)} layers × {n_heads} heads{trained} · "
        f"{plan.attributes['attention']}, {plan.attributes['dtype']} on {plan.attributes['device']}",
        f"text: {plan.attributes['text']}, {plan.attributes['n_windows']} windows · {plan.n_rows} rows a window · seed {plan.seed}",
    ]
    if plan.parts.skipped:
        kinds = ", ".join(sorted({what for _, _, what in plan.parts.skipped}))
        lines.append(f"skipped: {len(plan.parts.skipped)} layers without softmax attention ({kinds})")
    return "\n".join(lines)


def _say(line: str, as_json: bool) -> None:
    """Print for a person; with --json standard output is for the machine alone."""
    print(line, file=sys.stderr if as_json else sys.stdout, flush=True)


def _dry_run(plan: Plan, folder: Path, as_json: bool) -> None:
    from attnlim.audit.estimate import estimate
    from attnlim.cli.progress import clock_time

    expected = estimate(plan)
    if as_json:
        print(json.dumps({
            "cells": [cell.key for cell in plan.cells()], "out": str(folder), "seconds": round(expected.seconds, 1),
            "memory_bytes": expected.memory,
        }))  # fmt: skip
        return
    for n in plan.contexts:
        also = ", each with a backward pass" if plan.sensitivity else ""
        print(f"would run {plan.attributes['n_windows']} windows of {n} tokens{also}")
    print(f"into {folder}: about {clock_time(expected.seconds)} and {expected.memory / 1e9:.1f} GB on this machine")


def _run(plan: Plan, folder: Path, arguments: dict[str, Any], overwrite: bool) -> xr.Dataset:
    from attnlim.audit.measure import run_plan
    from attnlim.audit.tables import head_table
    from attnlim.cli.keeping import begin, keep
    from attnlim.cli.progress import progress

    run = begin(folder, arguments, plan, {"rows": plan.seed}, overwrite)
    with progress(plan.cells(), _line) as tell:
        result = run_plan(plan, run.cells, tell)
    keep(run, result.dataset, head_table, "heads.csv")
    return result.dataset


def _line(cell: Cell) -> str:
    """On which line of the progress a cell counts."""
    n_tokens = str(cell.arguments["n_tokens"])
    return f"sensitivity at {n_tokens}" if "wishes" in cell.arguments else n_tokens


def _show(dataset: xr.Dataset, folder: Path, as_json: bool) -> None:
    from attnlim.audit.tables import head_table, layer_table

    if as_json:
        heads = json.loads(head_table(dataset).to_json(orient="records"))
        print(json.dumps({"run": str(folder), "verdict": dataset.attrs["verdict"].split("\n"), "heads": heads}))
        return
    import textwrap

    from rich import box
    from rich.console import Console
    from rich.table import Table

    width = min(100, Console().width) if sys.stdout.isatty() else 100
    print()
    for paragraph in dataset.attrs["verdict"].split("\n"):
        print(textwrap.fill(paragraph, width, subsequent_indent="  "))
    print()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    heads = (
        "layer",
        "ρ̂",
        "γ_c",
        "diluted",
        "sparse",
        "frozen",
        "undecided",
        "tokens (quartiles)",
        "sink",
        "largest logit",
    )
    for name in heads:
        table.add_column(name, justify="right", no_wrap=True)
    for row in layer_table(dataset).to_dict("records"):
        tokens = f"{_size(row['tokens_median'])} ({_size(row['tokens_low'])}–{_size(row['tokens_high'])})"
        counts = [str(row[name] or "·") for name in ("diluted", "sparse", "frozen", "undecided")]
        rho, gamma_c = f"{row['rho_input']:.2f}", f"{row['gamma_c']:.2f}"
        sink, logit = f"{100 * row['sink_mass']:.0f} %", f"{row['largest_logit']:.1f}"
        table.add_row(str(row["layer"]), rho, gamma_c, *counts, tokens, sink, logit)
    print(
        f"at {int(dataset.context[-1])} tokens, heads of each phase, tokens attended and attention on the first token:"
    )
    Console(width=width, highlight=False).print(table)
    print(f"in {folder}: report.html, data.zarr, heads.csv, run.json")


def _compare(first: Path, second: Path, as_json: bool) -> None:
    from attnlim.audit.tables import compare, different_settings
    from attnlim.core.runs import open_run

    (before, _), (after, _) = open_run(first), open_run(second)
    for folder, dataset in ((first, before), (second, after)):
        if dataset.attrs.get("kind") != "attnlim.audit":
            raise InputError(
                f"{folder} is not an audit but {dataset.attrs.get('kind')!r}; give two runs of `attnlim audit`"
            )
    table, unlike = compare(before, after), different_settings(before, after)
    if as_json:
        print(json.dumps({"different": unlike, "rows": json.loads(table.to_json(orient="records"))}))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    sheet = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    sheet.add_column("context", justify="right")
    sheet.add_column("quantity")
    for folder, dataset in ((first, before), (second, after)):
        print(f"{folder.name}: {dataset.attrs['model']}, {dataset.attrs['text']}, {dataset.attrs['n_windows']} windows")
        sheet.add_column(folder.name, justify="right")
    for row in table.to_dict("records"):
        sheet.add_row(str(row["context"]), row["quantity"], _value(row["first"]), _value(row["second"]))
    if unlike:
        print(f"not made alike: {'; '.join(unlike)}")
    Console(width=100, highlight=False).print(sheet)


def _value(number: float) -> str:
    if math.isnan(number):
        return "–"
    return f"{number:.0f}" if number == int(number) else f"{number:.3g}"


def _size(tokens: float) -> str:
    return f"{tokens:.0f}" if tokens >= 10 else f"{tokens:.1f}"
