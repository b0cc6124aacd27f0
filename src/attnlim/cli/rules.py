"""`attnlim rules MODEL`: what a configuration really multiplies logits by at each position, and what is wrong with it."""

from __future__ import annotations

import json
import math
import os
import re
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnlim.cli.number_lists import whole_numbers
from attnlim.core.checks import InputError, extra
from attnlim.models.catalog import KNOWN_MODELS
from attnlim.models.fetching import fetched_folder

if TYPE_CHECKING:
    import xarray as xr

    from attnlim.rules import Comparison, Reading
    from attnlim.rules.layer_kinds import LayerKind

WIDTH = 100
# positions shown where none are asked for: from here on by factors of 4
FIRST_SHOWN = 1024


def command(
    model: Annotated[
        str | None,
        typer.Argument(help="A name of `attnlim models list`, a config.json, a folder, a .gguf file or a hub name."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(help="Positions, such as 1k,8k,32k. Default: up to the declared length, or the stretched one."),
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(metavar="RUN", help="A finished audit of the model: shows γ/γ_c of its heads.")
    ] = None,
    compare: Annotated[
        tuple[str, str] | None, typer.Option(metavar="A B", help="Where two models' rules part, over the whole range.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Read the scaling rule of a configuration: the factor on the logits by position, and what is to be known of it."""
    if compare is not None:
        if model is not None or audit is not None:
            raise InputError("--compare takes two models and neither MODEL nor --audit; leave those out")
        _compare(*compare, as_json)
        return
    if model is None:
        raise InputError("rules needs a MODEL, such as smollm2, a config.json, a folder or a .gguf file")
    reading = read_model(model)
    positions = _default_positions(reading) if at is None else _positions(at)
    heads = None if audit is None else _distances(reading, audit)
    if as_json:
        from attnlim.rules.reading_data import as_data, median_rows

        data = as_data(reading, positions)
        if heads is not None:
            data["criticality"] = {"audited": heads[1], "medians": median_rows(reading, heads[0])}
        print(json.dumps(data, ensure_ascii=False))
        return
    _show(reading, positions)
    if heads is not None:
        _show_distances(reading, *heads)


def read_model(spec: str) -> Reading:
    """The reading of what a MODEL on the command line names.

    Raises:
        InputError: there is no such thing, or it cannot be read.
    """
    from attnlim.rules import read

    if spec in KNOWN_MODELS:
        folder = fetched_folder(KNOWN_MODELS[spec])
        if folder is None:
            raise InputError(f"{spec} is not on this machine yet; fetch it with: attnlim models get {spec}")
        return replace(read(folder), title=KNOWN_MODELS[spec].title)
    path = Path(spec).expanduser()
    local = path.exists() or spec.endswith((".json", ".gguf")) or not re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", spec)
    if local:
        return read(path)
    return replace(read(_from_hub(spec)), title=spec)


def _from_hub(name: str) -> Path:
    """The config.json of a model on the hub, and nothing else of it."""
    hub = extra("huggingface_hub", "models")
    try:
        return Path(hub.hf_hub_download(name, "config.json"))
    except Exception as reason:  # the hub's own errors, of the network and of names
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        lines = str(reason).strip().splitlines() or [type(reason).__name__]
        raise InputError(
            f"{name} is no file or folder here, and its config.json cannot be had from the hub{offline}: "
            f"{lines[0].rstrip('.')}; give a config.json, a folder or a .gguf file"
        ) from reason


def _positions(given: str) -> list[int]:
    positions = whole_numbers("--at", given)
    if min(positions) < 0:
        raise InputError(f"--at must be positions from 0 on, got {min(positions)} in {given!r}")
    return sorted(set(positions))


def _default_positions(reading: Reading) -> list[int]:
    from attnlim.rules.effect_findings import reach

    last = reach(reading) + 1
    grid = [FIRST_SHOWN * 4**power for power in range(12) if FIRST_SHOWN * 4**power < last]
    return sorted({*grid, last, min(reading.trained_length or last, last)})


def _show(reading: Reading, positions: list[int]) -> None:
    from attnlim.rules import applied
    from attnlim.rules.effect_findings import reach
    from attnlim.rules.reading_data import logit_gap
    from attnlim.rules.reading_words import headline

    for line in headline(reading):
        _fill(line)
    far = reach(reading) + 1
    kinds = reading.kinds_that_differ
    for kind in kinds:
        if len(kinds) > 1:
            first = f", {len(kind.layers)} of {reading.n_layers}, the first is {kind.layers[0]}" if kind.layers else ""
            print(f"\n{kind.words}{first}:", end="")
        _factor_table(reading, kind, positions)
        gap = logit_gap(reading, kind)
        if gap is not None:
            _fill(f"Read as a claim: a logit gap of Δ = {gap:.1f} nats at {far} tokens.")
    if not reading.factors:
        print(applied(reading, far))
    if reading.applied_by != "transformers":
        _fill(f"As applied by {reading.applied_by}.")
    if all(finding.severity == "note" for finding in reading.findings):
        print("No errors or warnings.")
    for finding in reading.findings:
        _fill(f"{finding.severity}: {finding.sentence}")


def _factor_table(reading: Reading, kind: LayerKind, positions: list[int]) -> None:
    from attnlim.rules.reading_data import factor_rows
    from attnlim.rules.reading_words import has_still

    columns = {"position": "position", "cos/sin": "cos_sin", "softmax": "softmax", "query": "query"}
    if kind.rotary and has_still(reading):
        columns |= {"logits, rotary": "logits_rotary", "logits, others": "logits_other"}
    else:
        columns |= {"logits": "logits_rotary" if kind.rotary else "logits_other"}
    rows = []
    for row in factor_rows(reading, kind, positions):
        values = [row[name] for name in columns.values()]
        rows.append([str(values[0]), *("–" if value is None else f"{value:.4f}" for value in values[1:])])
    _table(list(columns), rows)


def _table(names: list[str], rows: list[list[str]], words: str = "") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name == words else "right", no_wrap=name != words)
    for row in rows:
        table.add_row(*row)
    Console(width=WIDTH, highlight=False).print(table)


def _fill(line: str) -> None:
    print(textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False))


def _distances(reading: Reading, run: Path) -> tuple[xr.DataArray, str]:
    """γ/γ_c of every head, and what the audited model applied by itself, in words."""
    from attnlim.core.runs import open_run
    from attnlim.rules import applied, distances

    dataset, record = open_run(run)
    if dataset.attrs.get("kind") != "attnlim.audit":
        raise InputError(f"{run} is not an audit but {dataset.attrs.get('kind')!r}; give a run of `attnlim audit`")
    source = str(record.get("arguments", {}).get("source", ""))
    longest = int(dataset.context[-1])
    if source and Path(source).exists():
        own = read_model(source)
        return distances(reading, dataset, own), f"of the audited model: {applied(own, longest)}"
    return distances(reading, dataset), "the audited model's config is not here: taken to apply no rule by itself"


def _show_distances(reading: Reading, heads: xr.DataArray, audited: str) -> None:
    from attnlim.rules.reading_data import median_rows

    print()
    _fill(
        f"γ/γ_c = multiplier/b_c of the audited heads by the gap count, to compare rules and contexts; phases come from κ "
        f"({audited.rstrip('.')}):"
    )
    rows = []
    for row in median_rows(reading, heads):
        median = "–" if row["median"] is None else f"{row['median']:.3f}"
        rows.append([str(row["context"]), row["words"], str(row["heads"]), median, str(row["above_1"])])
    _table(["context", "layers", "heads", "median γ/γ_c", "above 1"], rows, words="layers")


def _compare(first: str, second: str, as_json: bool) -> None:
    from attnlim.rules import compare
    from attnlim.rules.reading_data import comparison_rows
    from attnlim.rules.reading_words import headline

    readings = [read_model(spec) for spec in (first, second)]
    found = compare(*readings)
    if as_json:
        named = {"first": readings[0].title, "second": readings[1].title, "rows": comparison_rows(found)}
        print(json.dumps(named, ensure_ascii=False))
        return
    for letter, reading in zip("AB", readings, strict=True):
        for number, line in enumerate(headline(reading)):
            _fill(f"{letter if not number else ' '}  {line}")
    print()
    for one in found:
        _fill(f"{one.words}: {_parting(one)}")


def _parting(one: Comparison) -> str:
    if one.first_difference is None:
        return f"the same factor on logits from position 0 to {one.last}."
    if math.isnan(one.largest):
        return f"one of the two is not known from position {one.position} on."
    start = (
        "they differ from position 0 on"
        if one.first_difference == 0
        else f"the same up to position {one.first_difference - 1}"
    )
    return f"{start}; at most B = {one.largest:.4f} × A, at position {one.position} (looked at to {one.last})."
