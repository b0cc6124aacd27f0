"""How the work of a forward grows with the context."""

from __future__ import annotations

from typing import Any


def forward_cost(model: Any, n_tokens: int) -> float:
    r"""Operations of a backbone's forward.

    .. math:: 2 W n + 2 L d\, n^2

    W the weights without the embedding, L layers, d the width: two operations a weight and token, and the causal half of two
    products over the attention's pairs.

    Source: *ours*; soft maxima, norms and windows are not counted.

    Args:
        model: a transformers model.
        n_tokens: n, tokens.

    Returns:
        Floating-point operations, for ratios between contexts.
    """
    config = model.config.get_text_config()
    embedding = model.get_input_embeddings().weight.numel()
    weights = sum(weight.numel() for weight in model.base_model.parameters()) - embedding
    pairs = 2 * config.num_hidden_layers * config.hidden_size
    return float(2 * weights * n_tokens + pairs * n_tokens**2)
