"""Formulas of the pages themselves: what stands between two lines of ``$$`` is drawn as in the docstrings.

A hook of mkdocs. Other readers of the Markdown files, a code host for one, know ``$$`` by themselves.
"""

from __future__ import annotations

import re
from typing import Any

from docstrings import formula

DISPLAYED = re.compile(r"^\$\$\n(?P<body>.*?)\n\$\$$", re.M | re.S)


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """The page with its formulas drawn."""
    return DISPLAYED.sub(lambda found: formula(found["body"]), markdown)
