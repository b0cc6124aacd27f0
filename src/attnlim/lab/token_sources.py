"""Where the tokens of a sweep come from: a sampler, a tensor or a file of one's own, or a layer of a real model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attnlim.core.checks import InputError, whole_number

# those of attnlim.context.samplers, which a test holds; named here so that a bad option needs no torch
SAMPLER_NAMES = ("simplex", "gaussian", "half-sphere", "sphere")
WITH_RHO = ("simplex", "gaussian")
# tokens of a model without --n: enough for a picture, and a forward of seconds
MODEL_TOKENS = 512


@dataclass(frozen=True)
class TokenSource:
    """A source of tokens.

    Attributes:
        name: as it was given; "tensor" for an array.
        kind: "sampler", "file", "model" or "tensor".
        array: the tokens of a tensor.
    """

    name: str
    kind: str
    array: Any = field(default=None, repr=False, compare=False)

    @property
    def sampled(self) -> bool:
        """Whether a sampler makes the tokens, of any size."""
        return self.kind == "sampler"

    @property
    def random(self) -> bool:
        """Whether draws differ; those of a model are windows of its text."""
        return self.kind == "model" or (self.sampled and self.name != "simplex")

    @property
    def takes_rho(self) -> bool:
        """Whether their cosine can be chosen."""
        return self.name in WITH_RHO and self.sampled


def token_source(tokens: Any) -> TokenSource:
    """The source that ``tokens`` names, or holds.

    Args:
        tokens: the name of a sampler, a path of a .npy or .safetensors file (FILE.safetensors:NAME for one of several
            tensors), MODEL:LAYER, or an array or tensor (n, d).

    Raises:
        InputError: none of these.

    >>> token_source("sphere").kind, token_source("x.npy").kind, token_source("smollm2:12").kind
    ('sampler', 'file', 'model')
    """
    if hasattr(tokens, "shape"):
        return TokenSource("tensor", "tensor", tokens)
    name = str(tokens)
    if name in SAMPLER_NAMES:
        return TokenSource(name, "sampler")
    if Path(name).suffix in (".npy", ".safetensors") or ".safetensors:" in name:
        return TokenSource(name, "file")
    if ":" in name:
        return TokenSource(name, "model")
    raise InputError(
        f"--tokens must be one of {', '.join(SAMPLER_NAMES)}, a .npy or .safetensors file, "
        f"or MODEL:LAYER such as smollm2:12, got {name!r}"
    )


def given_tokens(
    source: TokenSource, n_tokens: Sequence[int] | None, draws: int, text: str | None, threads: int
) -> dict[tuple[int, int], np.ndarray]:
    """The tokens of a source that is no sampler, by number of tokens and draw: the first n, from each window.

    Args:
        source: a file, a model or a tensor.
        n_tokens: numbers of tokens; None takes all of a file, 512 of a model.
        draws: windows of a model's text, spread evenly over it.
        text: a file for a model to read; None is the language reference inside every CPython.
        threads: of torch, while a model runs.

    Raises:
        InputError: no such file, model or layer, or fewer tokens than asked for.
    """
    if source.kind == "model":
        return _from_model(source.name, n_tokens or (MODEL_TOKENS,), draws, text, threads)
    from attnlim.context.arguments import as_tensor, checked_tokens
    from attnlim.context.token_files import read_tokens

    tokens = read_tokens(source.name) if source.kind == "file" else checked_tokens(as_tensor(source.array))
    whole = tokens.detach().cpu().numpy()
    for n in n_tokens or ():
        if n > len(whole):
            raise InputError(f"{source.name} holds {len(whole)} tokens, got --n {n}; use {len(whole)} or fewer")
    return {(n, 0): whole[:n] for n in n_tokens or (len(whole),)}


def _from_model(
    name: str, n_tokens: Sequence[int], draws: int, text: str | None, threads: int
) -> dict[tuple[int, int], np.ndarray]:
    import torch

    from attnlim.models.hidden_states import hidden_states, parse_source
    from attnlim.models.loading import load
    from attnlim.models.text import read_text

    where = parse_source(name)
    content = read_text(text)
    before = torch.get_num_threads()
    torch.set_num_threads(whole_number("--threads", threads, 1))
    try:
        loaded = load(where.model, device="cpu")
        return {
            (n, draw): hidden_states(loaded, content, n, where.layer, window=draw, n_windows=draws).numpy()
            for n in n_tokens
            for draw in range(draws)
        }
    finally:
        torch.set_num_threads(before)
