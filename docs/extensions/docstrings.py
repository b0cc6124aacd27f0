"""What a docstring needs to read well on a page: formulas drawn, doctests fenced, Sphinx roles as code.

Formulas become inline SVG when the pages are built, so the site shows them without a network or a script.
"""

from __future__ import annotations

import hashlib
import io
import re
import textwrap
from typing import Any

import griffe
from matplotlib import rc_context
from matplotlib.figure import Figure

# what mathtext does not know, in words that it does
_SPELT = (
    (r"\\tfrac", r"\\frac"),
    (r"\\text\{", r"\\mathrm{"),
    (r"\\dots", r"\\ldots"),
    (r"\\operatorname", r"\\mathrm"),
    (r"\\([lg]e)(?![A-Za-z])", r"\\\1q"),
    (r"\\mathbb ([A-Z])", r"\\mathbb{\1}"),
    (r"\\[bB]ig(?=[(\[]|\\langle)", r"\\left"),
    (r"\\[bB]ig(?=[)\]]|\\rangle)", r"\\right"),
    (r"\\[bB]ig(?=\|)", ""),
    (r"\\frac ?([0-9a-z]|\\[A-Za-z]+) ?(?=[0-9a-z{\\])", r"\\frac{\1}"),
    (r"\\frac(\{[^{}]*\}) ?([0-9a-z]|\\[A-Za-z]+)", r"\\frac\1{\2}"),
    (r"\\sqrt ?([0-9a-z]|\\[A-Za-z]+)", r"\\sqrt{\1}"),
)
_FRACTION = re.compile(r"\\frac(?=\{)")
_MATH = re.compile(r"^(?P<indent> *)\.\. math::[ ]*(?P<inline>.*)\n(?P<body>(?:[ ]*\n|(?P=indent)[ ]+\S.*\n?)*)", re.M)
_DOCTEST = re.compile(r"^(?P<indent> *)>>> (?:.+\n?)+", re.M)
_DOUBLE = re.compile(r"(?<!`)``(?!`)")
_ROLE = re.compile(r":(?:func|class|mod|meth|data|attr):`~?([^`]+)`")


def formula(latex: str) -> str:
    """One formula as an inline SVG, or as code where mathtext cannot draw it."""
    source = " ".join(latex.split())
    spelt = source
    for pattern, other in _SPELT:
        spelt = re.sub(pattern, other, spelt)
    spelt = _FRACTION.sub(lambda found: r"\dfrac" if _outermost(spelt[: found.start()]) else found[0], spelt)
    spelt = re.sub(r"(?<=mathrm\{)[^}]*(?=\})", lambda found: found[0].replace(" ", r"\ "), spelt)
    figure, buffer = Figure(figsize=(0.01, 0.01)), io.BytesIO()
    try:
        figure.text(0, 0, f"${spelt}$", size=12)
        with rc_context({"svg.hashsalt": "attnlim", "mathtext.fontset": "dejavuserif"}):
            figure.savefig(buffer, format="svg", bbox_inches="tight", pad_inches=0.02, metadata={"Date": None})
    except ValueError:
        return f"```text\n{source}\n```"
    svg = buffer.getvalue().decode()
    svg = re.sub(r".*?(<svg)", r"\1", svg, count=1, flags=re.S)
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<g id=\"patch_\d+\">.*?</g>", "", svg, flags=re.S)
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.S).replace("<defs></defs>", "")
    # ids are the page's, not the formula's
    name = f"f{hashlib.sha256(source.encode()).hexdigest()[:8]}-"
    svg = re.sub(r'id="', f'id="{name}', svg)
    svg = re.sub(r'xlink:href="#', f'href="#{name}', svg)
    title = source.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)
    return f'<div class="formula">{" ".join(svg.split())}</div>'


def _outermost(before: str) -> bool:
    """Whether no brace is open, so that a fraction that follows has the full size."""
    return before.count("{") - before.count(r"\{") == before.count("}") - before.count(r"\}")


def _formulas(found: re.Match[str]) -> str:
    text = found["inline"] or textwrap.dedent(found["body"])
    parts = [part for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]
    drawn = "\n\n".join(formula(part) for part in parts)
    rest = found["body"] if found["inline"] and found["body"].strip() else ""
    return "\n" + textwrap.indent(drawn, found["indent"]) + "\n\n" + rest


def readable(text: str) -> str:
    """A docstring as Markdown."""
    text = _MATH.sub(_formulas, text)
    text = _DOCTEST.sub(lambda found: f"{found['indent']}```pycon\n{found[0].rstrip()}\n{found['indent']}```\n", text)
    text = _DOUBLE.sub("`", text)
    text = re.sub(r"^(Source|Assumes|Cost|Precision|Twin):", r"**\1:**", text, flags=re.M)
    return _ROLE.sub(lambda found: f"`{found[1].removeprefix('~')}`", text)


class ReadableDocstrings(griffe.Extension):
    """Rewrites every docstring once, when its object has been read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
