"""A decoder of two layers that was trained to 64 tokens, and a tokenizer of one token a letter."""

from __future__ import annotations

from typing import Any

import torch

from attnlim.models.loading import LoadedModel
from attnlim.models.text import Text, read_text

TRAINED, TARGET = 64, 448


class Letters:
    """Printable ASCII and the end of a line, a token each."""

    def __call__(self, text: str, **settings: Any) -> dict[str, list[int]]:
        return {"input_ids": [1 if c == "\n" else min(96, max(2, ord(c) - 30)) for c in text]}

    def decode(self, ids: list[int]) -> str:
        return "".join("\n" if i == 1 else chr(i + 30) for i in ids)


def decoder(**settings: Any) -> Any:
    """A random Llama with scores of order one, in float64: comparisons then see more than rounding."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**{
        "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": TRAINED, **settings,
    })  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(4.0)
    return model


def loaded(model: Any = None) -> LoadedModel:
    """The decoder as `attnlim.models.load` gives one."""
    return LoadedModel(model or decoder(), Letters(), "tiny", "random weights", "nowhere")


def text(n_letters: int = 8 * TARGET) -> Text:
    """The beginning of the default text."""
    return Text("a text", read_text(None).content[:n_letters])
