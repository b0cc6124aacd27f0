"""The scaling facts of real models' config.json, and the parts of transformers that they make: the right values."""

from __future__ import annotations

import copy
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from packaging.version import Version

from attnlim.rules.model_families import TRANSFORMERS

FOLDER = Path(__file__).parent / "configs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
# those of which transformers has no such model
ELSEWHERE = ("grok-2", "qwen-7b")
IN_TRANSFORMERS = [name for name in NAMES if name not in ELSEWHERE]


# what is compared with transformers' own numbers is compared with those of the version that the table tells
as_told = pytest.mark.skipif(
    Version(transformers.__version__) < Version(TRANSFORMERS), reason=f"transformers is older than {TRANSFORMERS}"
)


def real(name: str) -> dict[str, Any]:
    """The facts by name; LongRoPE's lists, which have nothing to do with the factor on logits, are filled with ones."""
    config: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    text = config.get("text_config", config)
    rope = text.get("rope_scaling")
    if rope and rope.get("type") == "longrope":
        dim = text.get("qk_rope_head_dim") or text["hidden_size"] // text["num_attention_heads"]
        rope["short_factor"] = rope["long_factor"] = [1.0] * (dim // 2)
    return config


def transformers_config(config: dict[str, Any]) -> Any:
    """The configuration object that transformers makes of it: of the language model."""
    from transformers import CONFIG_MAPPING

    text = copy.deepcopy(config.get("text_config", config))
    return CONFIG_MAPPING[text.pop("model_type")](**text)


def module_class(config: Any, ending: str) -> Any:
    """The class of a family's modeling code whose name ends so: the one for text, and not for other parts."""
    folder = type(config).__module__.split(".")[-2]
    modeling = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    found = [
        value
        for name, value in vars(modeling).items()
        if name.endswith(ending)
        and isinstance(value, type)
        and value.__module__ == modeling.__name__
        and "Vision" not in name
    ]
    assert len(found) == 1, found
    return found[0]


def attention(config: Any, layer: int) -> Any:
    """The attention of one layer, without memory for its weights."""
    import torch

    with torch.device("meta"):
        return module_class(config, "Attention")(config, layer)


def rotary_amplitude(config: Any, positions: list[int], label: str | None) -> Any:
    """√(cos² + sin²) of the rotary module at positions, one sequence each: (positions,), float64."""
    import torch

    rotary = module_class(config, "RotaryEmbedding")(config)
    found = []
    for position in positions:
        arguments = (torch.zeros(1, 1, 8), torch.tensor([[position]])) + (() if label is None else (label,))
        turned = rotary(*arguments)
        parts = (turned.real, turned.imag) if isinstance(turned, torch.Tensor) else turned
        found.append((parts[0].double() ** 2 + parts[1].double() ** 2).sqrt().mean())
    return torch.stack(found)
