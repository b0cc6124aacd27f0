"""Real models: fetching, loading, text, and the one attention hook that audit and rules share."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "AttentionCall": "hook",
    "attached": "hook",
    "visible_keys": "hook",
    "KNOWN_MODELS": "catalog",
    "KnownModel": "catalog",
    "fetch": "fetching",
    "LoadedModel": "loading",
    "load": "loading",
    "Text": "text",
    "read_text": "text",
    "cut_windows": "text",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
