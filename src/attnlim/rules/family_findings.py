"""Findings on the model's kind: known or not, and whose code the reading follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlim.rules.config_files import Facts
from attnlim.rules.findings import Finding, size
from attnlim.rules.gguf_metadata import DECLARED
from attnlim.rules.model_families import is_known
from attnlim.rules.query_scaling import QWEN_TABLE

if TYPE_CHECKING:
    from attnlim.rules.reading import Reading


def family_findings(facts: Facts, reading: Reading) -> list[Finding]:
    """What the kind of model, and the file that the config came from, have to say."""
    return [*_kind(facts), *_elsewhere(facts), *_gguf(facts, reading)]


def _kind(facts: Facts) -> list[Finding]:
    if not facts.model_type:
        return [Finding("unknown-model", "note", "The config does not say its model_type: read as a plain decoder.")]
    if is_known(facts.model_type):
        return []
    return [
        Finding(
            "unknown-model",
            "note",
            f"No table here for model type {facts.model_type!r}: read as a decoder with rotary positions on every layer; "
            "rules that its code may have of its own are not seen.",
        )
    ]


def _elsewhere(facts: Facts) -> list[Finding]:
    if facts.model_type == "qwen":
        return [
            Finding(
                "not-in-transformers",
                "note",
                "transformers has no such model: this is what the code that came with Qwen-1 applies, at inference only, with "
                f"positions counted from the cache, and not beyond position {QWEN_TABLE - 1}, where its table of factors ends.",
            )
        ]
    if facts.model_type == "grok-2":
        after = ", on logits after the soft cap and not on the query" if facts.get("attn_logit_softcapping") else ""
        stretch = (
            "; scaling_factor changes no amplitude there: SGLang leaves cos and sin at 1"
            if facts.config.get("scaling_factor")
            else ""
        )
        return [
            Finding(
                "not-in-transformers",
                "note",
                f"transformers has no such model (its 'git' is another): this is what SGLang applies{after}{stretch}.",
            )
        ]
    if facts.model_type == "swan":
        return [
            Finding(
                "unverified",
                "warning",
                "SWAN-GPT scales the queries of its layers without rotary positions by a logarithm of the length at "
                "inference, with constants that we could not verify: none is applied here; see attnlim.rules.swan.",
            )
        ]
    return []


def _gguf(facts: Facts, reading: Reading) -> list[Finding]:
    file = facts.gguf
    if file is None or not file.scaling_keys():
        return [] if file is None or file.loaded else [_not_loaded(file.architecture)]
    if not file.loaded:
        return [_not_loaded(file.architecture)]
    from attnlim.rules.reading import read

    keys = ", ".join(file.scaling_keys())
    meant = read({**file.config(), **file.declared()})
    last = max(reading.declared_length or 2, 2) - 1
    applied = float(reading.parts(last, head=0).logit.rotary)
    wanted = float(meant.parts(last, head=0).logit.rotary)
    if wanted == applied:
        return [
            Finding(
                "gguf-dropped",
                "warning",
                f"transformers' GGUF loader drops {keys}: positions are not stretched; the factor on logits is the same.",
                applied,
                wanted,
            )
        ]
    return [
        Finding(
            "gguf-dropped",
            "error",
            f"transformers' GGUF loader drops {keys}: {size(applied, wanted, last)}, and positions are not stretched.",
            applied,
            wanted,
            last,
        )
    ]


def _not_loaded(architecture: str) -> Finding:
    read_as = DECLARED.get(architecture)
    how = f"read as {read_as}, with what the file declares" if read_as else "read as what the file declares"
    return Finding(
        "not-in-transformers",
        "warning",
        f"transformers does not load a GGUF file of architecture {architecture!r} as it stands: {how}.",
    )
