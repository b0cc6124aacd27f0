"""Where a model takes its tokens."""

from __future__ import annotations

from typing import Any

import torch


def standing_on(model: Any) -> torch.device:
    """The device of the tokens that a model or its backbone takes."""
    embedding = model.get_input_embeddings()
    # accelerate keeps offloaded weights on no device; its hook knows where the layer runs
    device: Any = getattr(getattr(embedding, "_hf_hook", None), "execution_device", None)
    return torch.device(embedding.weight.device if device is None else device)
