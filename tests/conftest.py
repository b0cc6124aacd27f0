"""Shared by all tests: real checkpoints, tiny random models of every kind that the audit names, quick processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.forks import Forks

# a shell starts what it puts in the background deaf to Ctrl-C, and children inherit that
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def smollm2() -> Any:
    """SmolLM2-135M with its tokenizer, the real checkpoint."""
    from attnlim.models import load

    return load("smollm2", device="cpu")


@pytest.fixture(scope="session")
def minilm() -> Any:
    """all-MiniLM-L6-v2 with its tokenizer, the real checkpoint."""
    from attnlim.models import load

    return load("minilm", device="cpu")


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Processes that need not import anything: a command costs what it does, not the seconds that Python needs."""
    with Forks() as running:
        yield running


def _tiny(kind: str) -> Any:
    from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM

    common: dict[str, Any] = {
        "vocab_size": 97,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 256,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    grouped = {**common, "num_key_value_heads": 2, "head_dim": 8}
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "llama": ("llama", grouped),
        "qwen3": ("qwen3", grouped),
        "mistral": ("mistral", {**grouped, "sliding_window": 24}),
        # query_pre_attn_scalar is not the head dimension: the softmax scale has to come from the model
        "gemma2": (
            "gemma2",
            {**grouped, "sliding_window": 24, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 5},
        ),
        "gpt2": ("gpt2", {"vocab_size": 97, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256}),
        "bert": ("bert", common),
        "modernbert": ("modernbert", {**common, "local_attention": 16, "global_attn_every_n_layers": 2}),
        "gemma3": (
            "gemma3_text",
            {
                **grouped,
                "sliding_window": 24,
                "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            },
        ),
        "opt": ("opt", {**common, "ffn_dim": 48, "word_embed_proj_dim": 32, "dropout": 0.0}),
        # its own config stretches by YaRN, and so scales already
        "gpt-oss": (
            "gpt_oss",
            {
                **grouped,
                "sliding_window": 24,
                "num_local_experts": 4,
                "num_experts_per_tok": 2,
                "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
            },
        ),
        # these keep attention code of their own
        "falcon": ("falcon", common),
        "bloom": ("bloom", common),
        "mpt": ("mpt", {"vocab_size": 97, "d_model": 32, "n_layers": 3, "n_heads": 4}),
        "deberta-v2": ("deberta-v2", common),
    }
    name, settings = kinds[kind]
    config = CONFIG_MAPPING[name](**settings)
    torch.manual_seed(sum(map(ord, kind)))
    loader = AutoModel if kind in ("bert", "modernbert", "deberta-v2") else AutoModelForCausalLM
    model = loader.from_config(config)
    # a fresh model's scores are all near 0; wider weights give every head a softmax worth measuring
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(6.0)
    return model.eval()


TINY_KINDS = ("llama", "qwen3", "mistral", "gemma2", "gpt2", "bert", "modernbert")


@pytest.fixture(scope="session")
def tiny() -> Callable[[str], Any]:
    """A function from a kind to a fresh tiny random model in evaluation mode."""
    return _tiny


@pytest.fixture(params=TINY_KINDS)
def tiny_model(request: pytest.FixtureRequest) -> Any:
    """Each tiny random model in turn."""
    return _tiny(request.param)
