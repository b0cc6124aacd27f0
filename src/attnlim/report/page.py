"""The HTML report: one offline file that holds its data, its styles and its scripts."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from attnlim.core.checks import extra
from attnlim.core.files import replacing
from attnlim.report.payload import page_data
from attnlim.report.reading import checked, facts

_TEMPLATES = Path(__file__).parent / "templates"
_SCRIPTS = ("state.js", "format.js", "maps.js", "lines.js", "table.js", "report.js")
# these have their own place on the page
_SHOWN_ELSEWHERE = ("verdict", "skipped", "kind")


def write_report(dataset: xarray.Dataset, run: Mapping[str, Any], path: Path) -> Path:
    """Write the report of one audit as a single self-contained HTML file.

    The file fetches nothing: plotly.js, styles and data are inside it, and its content security policy lets
    only the scripts that were written with it run. The same input gives the same bytes.

    Args:
        dataset: an audit dataset (kind ``attnlim.audit``, schema 1).
        run: the content of run.json (command, arguments, version, seeds, environment, times, status).
        path: the HTML file to make or replace; it appears whole or not at all.

    Returns:
        ``path``.

    Raises:
        InputError: ``dataset`` is not such an audit, or the extra ``report`` is not installed.
    """
    checked(dataset)
    page = _render(dataset, run)
    path = Path(path)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")
    return path


def _render(dataset: xarray.Dataset, run: Mapping[str, Any]) -> str:
    jinja2 = extra("jinja2", "report")
    plotly_js: str = extra("plotly.offline", "report").get_plotlyjs()
    page_js = "\n".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # tojson writes <, >, & and ' as \u escapes, so that no text can end the script element
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    attrs = dataset.attrs
    page: str = environment.get_template("report.html.j2").render(
        attrs=attrs,
        facts=facts(dataset),
        contexts=[int(n) for n in dataset["context"]],
        n_layers=dataset.sizes["layer"],
        n_heads=dataset.sizes["head"],
        paragraphs=[line.strip() for line in str(attrs["verdict"]).split("\n") if line.strip()],
        skipped=json.loads(attrs["skipped"]),
        run_rows=list(_flat(run)),
        attr_rows=[(name, _plain(value)) for name, value in attrs.items() if name not in _SHOWN_ELSEWHERE],
        data=page_data(dataset),
        css=(_TEMPLATES / "report.css").read_text(encoding="utf-8"),
        scripts=[{"text": text, "digest": _digest(text)} for text in (plotly_js, page_js)],
    )
    return page


def _digest(script: str) -> str:
    """The script's hash as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """``(name, text)`` of every leaf, with nested names joined by dots."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _plain(value)


def _plain(value: Any) -> str:
    if value is None or value == {} or value == []:
        return "none"
    if isinstance(value, str | bool | int | np.generic):
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value, ensure_ascii=False, default=str)
