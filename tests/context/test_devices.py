"""The kernels on a CUDA device: the numbers of the CPU, and nothing moved behind the caller's back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnlim.context import contraction, focus, gaussian_tokens, jacobian_energy, layer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
BETAS = [1.0, 5.0, 9.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
def test_contraction_and_energy_are_those_of_the_cpu(dtype: torch.dtype, causal: bool) -> None:
    x = gaussian_tokens(700, 24, 0.5).to(dtype)
    for kernel, name in ((contraction, "value"), (jacobian_energy, "total")):
        here, there = kernel(x, BETAS, 0.3, causal), kernel(x.cuda(), BETAS, 0.3, causal)
        np.testing.assert_array_less(np.abs(getattr(here, name) - getattr(there, name)), here.error + there.error)


@pytest.mark.parametrize("causal", [False, True])
def test_layer_and_focus_are_those_of_the_cpu(causal: bool) -> None:
    x = gaussian_tokens(700, 24, 0.5)
    after = layer(x.cuda(), BETAS, 0.3, causal)
    assert after.device.type == "cuda"
    torch.testing.assert_close(after.cpu(), layer(x, BETAS, 0.3, causal))
    torch.testing.assert_close(focus(x.cuda(), BETAS, causal).entropy.cpu(), focus(x, BETAS, causal).entropy)
