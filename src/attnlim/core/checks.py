"""Input checks: the one place that says what was expected, what came and what to do.

Everything a user can get wrong raises :class:`InputError` with one line; the command line prints that line
and exits with code 2. Comparisons are written so that NaN fails them (``not beta >= 0``).
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Iterable
from types import ModuleType
from typing import Any


class InputError(ValueError):
    """Something that the user gave cannot be used; the message is one line that says what to do."""


def whole_number(name: str, value: Any, least: int, advice: str = "") -> int:
    """``value`` as an int of at least ``least``.

    Raises:
        InputError: not a whole number, or below ``least``.
    """
    try:
        number = int(value)
        exact = number == value and not isinstance(value, bool)
    except (TypeError, ValueError, OverflowError):
        exact = False
    if not exact or number < least:
        raise InputError(_line(f"{name} must be a whole number of at least {least}, got {value!r}", advice))
    return number


def real_number(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    closed: bool = False,
    advice: str = "",
) -> float:
    """``value`` as a finite float inside (``above``, ``below``), or inside the closed interval.

    Raises:
        InputError: not a number, NaN, infinite or outside.
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    inside = above <= number <= below if closed else above < number < below
    if not (inside and math.isfinite(number)):
        if math.isfinite(above) and math.isfinite(below):
            left, right = ("[", "]") if closed else ("(", ")")
            wanted = f"a number in {left}{above:.12g}, {below:.12g}{right}"
        elif math.isfinite(above):
            wanted = f"a finite number {'of at least' if closed else 'above'} {above:.12g}"
        elif math.isfinite(below):
            wanted = f"a finite number {'of at most' if closed else 'below'} {below:.12g}"
        else:
            wanted = "a finite number"
        raise InputError(_line(f"{name} must be {wanted}, got {value!r}", advice))
    return number


def cosine(rho: Any, n_tokens: int) -> float:
    """The common cosine ρ of ``n_tokens`` equidistant unit vectors, which exist for -1/(n-1) < ρ < 1.

    Raises:
        InputError: outside that interval.
    """
    return real_number(
        "rho",
        rho,
        above=-1 / (n_tokens - 1),
        below=1.0,
        advice=f"{n_tokens} tokens can share a cosine only between -1/(n-1) and 1",
    )


def one_of(name: str, value: Any, allowed: Iterable[Any], advice: str = "") -> Any:
    """``value`` if it is among ``allowed``.

    Raises:
        InputError: it is not.
    """
    choices = list(allowed)
    if value not in choices:
        raise InputError(_line(f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}", advice))
    return value


def installed(module: str, group: str) -> None:
    """Make sure, without importing it, that ``module`` of the optional extra ``group`` is there.

    Raises:
        InputError: it is not installed; the message names the extra.
    """
    if importlib.util.find_spec(module) is None:
        raise InputError(f"this needs the package {module!r}; install it with: pip install 'attnlim[{group}]'")


def extra(module: str, group: str) -> ModuleType:
    """The imported ``module``, which the optional extra ``group`` installs.

    Raises:
        InputError: it is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as reason:
        raise InputError(
            f"this needs the package {module.partition('.')[0]!r} ({reason}); install it with: pip install 'attnlim[{group}]'"
        ) from reason


def _line(problem: str, advice: str) -> str:
    return f"{problem}; {advice}" if advice else problem
