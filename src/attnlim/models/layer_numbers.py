"""Which layer of a model an attention module belongs to."""

from __future__ import annotations

import re


def layer_number(name: str) -> int | None:
    """The number in a module's qualified name; None where it has none, as with layers that share one module.

    >>> layer_number("model.layers.12.self_attn"), layer_number("encoder.attention")
    (12, None)
    """
    found = re.search(r"\.(\d+)\.", name)
    return int(found[1]) if found else None
