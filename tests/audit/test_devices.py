"""The same numbers on every device: `make test-gpu` runs these where there is a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnlim.audit.probing import anatomy, probe
from attnlim.context.cosine import mean_cosine
from attnlim.context.gaps import critical_multiplier

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2", "gpt2", "bert", "modernbert"])
def test_probe_on_the_gpu(kind: str, tiny: Any) -> None:
    ids, rows = torch.randint(3, 97, (2, 90), generator=torch.Generator().manual_seed(0)), torch.arange(1, 90, 3)
    mask = torch.ones(2, 90, dtype=torch.int64)
    mask[1, :20] = 0
    found = []
    for device in ("cpu", "cuda"):
        model = tiny(kind).to(device)
        parts = anatomy(model, ids[:1, :8])
        found.append(probe(model, ids, rows, parts, mask))
    for on_cpu, on_gpu in zip(found[0].statistics, found[1].statistics, strict=True):
        for sequence in range(2):
            for name, value in on_cpu[sequence].items():
                # q and k come from float32 layers of two devices, which round differently
                torch.testing.assert_close(on_gpu[sequence][name].cpu(), value, rtol=2e-3, atol=2e-3, equal_nan=True)


@pytest.mark.gpu
@needs_gpu
def test_kernels_on_the_gpu() -> None:
    scores = torch.randn(7, 333, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        critical_multiplier(scores.cuda()).cpu(), critical_multiplier(scores), rtol=1e-12, atol=0
    )
    tokens = torch.randn(3000, 64, generator=torch.Generator().manual_seed(2))
    assert mean_cosine(tokens.cuda()) == pytest.approx(mean_cosine(tokens), abs=1e-12)
