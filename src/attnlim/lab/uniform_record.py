"""The verdicts that the reproduction is expected to come to, by size: what is confirmed, and what is not and stays so."""

from __future__ import annotations

from collections.abc import Mapping

RECORDED: dict[str, Mapping[str, str]] = {}
