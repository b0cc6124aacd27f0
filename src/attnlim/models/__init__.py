"""Real models: fetching, loading, text, and the one attention hook that audit and rules share."""

from __future__ import annotations

from attnlim.core.exports import lazily

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
    "next_token_nll": "next_token",
    "prefill": "prefilling",
    "read_text": "text",
    "cut_windows": "text",
}
__all__ = sorted(_HOME)

__getattr__ = lazily(__name__, _HOME)
