"""The verdicts that a reproduction is expected to come to, by size: what is confirmed, and what is not and stays so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attnlim.lab.critical_verdicts import CONFIRMED, CONTRADICTED, QUALIFIED, Claim

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


def not_as_recorded(
    size: str, claims: Iterable[Claim], recorded: Mapping[str, Mapping[str, str]] | None = None
) -> list[str]:
    """A line for every claim whose verdict is another than the one recorded; none for a size that is not recorded.

    Args:
        size: the name of the size.
        claims: what was found.
        recorded: verdicts by size and key; None for those of the repository.
    """
    expected = (RECORDED if recorded is None else recorded).get(size, {})
    return [
        f"{claim.text}: recorded as {expected[claim.key]}, found {claim.verdict}"
        for claim in claims
        if claim.key in expected and claim.verdict != expected[claim.key]
    ]
