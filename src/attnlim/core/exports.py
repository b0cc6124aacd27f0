"""A package's public names, each imported from its module when it is first used (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of ``package``, so that listing its names imports nothing heavy.

    Args:
        package: the package's ``__name__``.
        homes: the module inside the package that defines each public name.

    >>> lazily("attnlim.core", {"logistic": "numerics"})("logistic")(0.0)
    0.5
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find
