"""The verdicts that a reproduction is expected to come to, by size: what is confirmed, and what is not and stays so."""

from __future__ import annotations

from collections.abc import Mapping

from attnlim.lab.verdicts import CONFIRMED, CONTRADICTED, QUALIFIED

_EVERYWHERE = {
    "cosine-subcritical": CONFIRMED,
    "cosine-critical": CONFIRMED,
    "cosine-supercritical": CONFIRMED,
    "residual-subcritical": CONFIRMED,
    "residual-critical": CONFIRMED,
    "residual-supercritical": CONFIRMED,
    "partition": QUALIFIED,
    "sharp": QUALIFIED,
    "collapse": CONFIRMED,
    "drawn": QUALIFIED,
    "half-weight": CONFIRMED,
    "forward-wide": CONFIRMED,
    "backward-wide": CONFIRMED,
    "together-wide": CONFIRMED,
    "forward-middle": QUALIFIED,
    "backward-middle": QUALIFIED,
    "together-middle": QUALIFIED,
    "together-narrow": CONTRADICTED,
    "sharper": CONFIRMED,
    "pair": CONTRADICTED,
    "contracts": CONFIRMED,
    "smallest": CONFIRMED,
    "smallest-negative": CONTRADICTED,
    "frozen": CONFIRMED,
    "eta-subcritical": CONFIRMED,
    "eta-critical": CONFIRMED,
    "eta-supercritical": CONFIRMED,
    "eta-level": QUALIFIED,
    "plateau": CONTRADICTED,
    "normalisation-simplex": CONFIRMED,
    "normalisation": CONFIRMED,
    "eta-norms": CONFIRMED,
    "assumption-wide": QUALIFIED,
    "assumption-middle": QUALIFIED,
    "assumption-half-sphere": CONTRADICTED,
    "bounds": CONTRADICTED,
    "middle": QUALIFIED,
    "narrow": CONTRADICTED,
    "layers": QUALIFIED,
    "laws": QUALIFIED,
    "log": QUALIFIED,
    "independent": QUALIFIED,
    "permuted": CONFIRMED,
    "content": CONFIRMED,
}
# tokens eight times as wide keep to the simplex' curve
RECORDED: dict[str, Mapping[str, str]] = {"laptop": _EVERYWHERE, "full": _EVERYWHERE | {"drawn": CONFIRMED}}

# the order of the table
ORDER = tuple(_EVERYWHERE)
