"""One self-contained HTML document: its data, styles and scripts inside it, and a policy that lets no other run."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attnlim.core.checks import extra

TEMPLATES = Path(__file__).parent / "templates"
# these have their own place on the page
_SHOWN_ELSEWHERE = ("verdict", "skipped", "kind")


@dataclass(frozen=True)
class Page:
    """What one kind of dataset puts on its page, on top of what all pages share.

    Attributes:
        template: the page's template, which extends ``base.html.j2``.
        title: the browser's title of the page.
        data: what the scripts read, ready for JSON.
        scripts: files of the page's own scripts in the order in which they run; with charts, plotly.js comes first.
        styles: files of the page's own styles, after those that all pages share.
        charts: plotly.js is part of the page.
        variables: what else the template reads.
    """

    template: str
    title: str
    data: Mapping[str, Any]
    scripts: Sequence[str]
    styles: Sequence[str] = ()
    charts: bool = True
    variables: Mapping[str, Any] = field(default_factory=dict)


def html(page: Page, attrs: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """The document's text; the same input gives the same text.

    Args:
        page: what the page shows.
        attrs: the dataset's attributes; ``verdict`` is shown first, the others as its provenance.
        run: the content of run.json.

    Raises:
        InputError: the extra ``report`` is not installed.
    """
    jinja2 = extra("jinja2", "report")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # tojson writes <, >, & and ' as \u escapes, so that no text can end the script element
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    own = _read("format.js", "shell.js", *page.scripts)
    scripts = [extra("plotly.offline", "report").get_plotlyjs(), own] if page.charts else [own]
    text: str = environment.get_template(page.template).render(
        page.variables,
        attrs=attrs,
        title=page.title,
        paragraphs=[line.strip() for line in str(attrs["verdict"]).split("\n") if line.strip()],
        run_rows=list(_flat(run)),
        command=str(run.get("command") or ""),
        attr_rows=[(name, _plain(value)) for name, value in attrs.items() if name not in _SHOWN_ELSEWHERE],
        data=page.data,
        css=_read("report.css", *page.styles),
        scripts=[{"text": script, "digest": _digest(script)} for script in scripts],
    )
    return text


def _read(*names: str) -> str:
    return "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names)


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
