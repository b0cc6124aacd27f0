"""γ/γ_c of heads under a rule, from an audit's b_c."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from tests.rules.real_configs import real

from attnlim.core.checks import InputError
from attnlim.rules import constant, critical, distances, logn, none, read


def audit_of(b_c: np.ndarray, contexts: tuple[int, ...] = (2048, 8192)) -> xr.Dataset:
    """A dataset with what is needed of an audit's."""
    _, layers, heads = b_c.shape
    return xr.Dataset(
        {"critical_multiplier": (("context", "layer", "head"), b_c)},
        coords={"context": list(contexts), "layer": np.arange(layers), "head": np.arange(heads)},
    )


B_C = np.array([[[1.0, 2.0], [0.5, np.nan]], [[1.2, 2.4], [0.6, 4.0]]])


def test_multiplier_over_b_c() -> None:
    found = distances(logn(2048), audit_of(B_C))
    np.testing.assert_allclose(found.sel(context=2048), 1 / B_C[0])
    np.testing.assert_allclose(found.sel(context=8192), np.log(8192) / np.log(2048) / B_C[1])
    assert found.dims == ("context", "layer", "head")
    np.testing.assert_array_equal(distances(none(), audit_of(B_C)), 1 / B_C)


def test_a_rule_that_the_audited_model_applies_is_in_b_c_already() -> None:
    data = audit_of(B_C)
    np.testing.assert_allclose(distances(logn(2048), data, audited=logn(2048)), 1 / B_C)
    np.testing.assert_allclose(distances(constant(1.5), data, audited=constant(1.2)), 1.25 / B_C)


def test_a_layer_with_a_window_has_the_factor_of_the_keys_that_it_sees() -> None:
    data = audit_of(np.ones((1, 2, 1)), (8192,))
    data["most_visible"] = (("context", "layer"), [[512, 8192]])
    found = distances(critical(2048, 1.0), data)
    np.testing.assert_allclose(found[0, :, 0], [1, np.log(8192) / np.log(2048)], rtol=1e-12)


def test_the_critical_rule_keeps_a_head_where_it_was() -> None:
    """With b_c a power of ln n, the distance at n is that at n_0."""
    contexts, zeta = (2048, 8192, 32768), 0.7
    b_c = 1.3 * (np.log(contexts) / np.log(2048)) ** zeta
    found = distances(critical(2048, zeta), audit_of(b_c[:, None, None], contexts))
    np.testing.assert_allclose(found[:, 0, 0], 1 / 1.3, rtol=1e-12)


def test_heads_have_their_own_factor() -> None:
    zeta = np.array([[0.0, 1.0], [0.5, 2.0]])
    found = distances(critical(64, zeta), audit_of(np.ones((1, 2, 2)), (4096,)))
    np.testing.assert_allclose(found[0], 2.0**zeta, rtol=1e-12)


def test_layers_have_their_own_factor() -> None:
    reading = read(real("llama-4-scout"))
    found = distances(reading, audit_of(np.ones((1, 4, 1)), (8192,)))
    assert found[0, :, 0].values.tolist() == [1.0, 1.0, 1.0, pytest.approx(1.0693147)]


def test_dimensions_are_weighted_by_their_number() -> None:
    reading = read({"model_type": "glm", "rope_scaling": {"type": "yarn", "factor": 4.0}})
    found = distances(reading, audit_of(np.ones((1, 1, 1)), (8192,)))
    assert float(found[0, 0, 0]) == pytest.approx((reading.parts(0).cos_sin ** 2 + 1) / 2)


def test_an_audit_of_another_model_is_refused() -> None:
    with pytest.raises(InputError, match="the audit has a layer 39, the config 30 layers"):
        distances(read(real("smollm2-135m")), audit_of(np.ones((1, 40, 1)), (8192,)))
    with pytest.raises(InputError, match="has no critical_multiplier"):
        distances(none(), xr.Dataset())
