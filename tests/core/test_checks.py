"""Input checks: each refusal says what was expected, what came and what to do."""

from __future__ import annotations

import math

import pytest

from attnlim.core.checks import InputError, cosine, extra, installed, one_of, real_number, whole_number


@pytest.mark.parametrize("value", [1, 0, -3, 2.5, math.nan, math.inf, "two", None, True])
def test_whole_number_refuses(value: object) -> None:
    with pytest.raises(InputError, match="n_tokens must be a whole number of at least 2"):
        whole_number("n_tokens", value, 2)


def test_whole_number_accepts_huge_and_float_whole() -> None:
    assert whole_number("n_tokens", 10**300, 2) == 10**300
    assert whole_number("n_tokens", 4.0, 2) == 4


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, "x", None])
def test_real_number_refuses(value: object) -> None:
    with pytest.raises(InputError, match="gamma must be a finite number of at least 0, got"):
        real_number("gamma", value, above=0.0, closed=True)


@pytest.mark.parametrize("rho", [1.0, -0.2, -0.1000001, 1.5, math.nan])
def test_cosine_refuses_what_no_simplex_has(rho: float) -> None:
    """11 unit vectors share a cosine only above -1/10."""
    with pytest.raises(InputError, match=r"rho must be a number in \(-0.1, 1\)"):
        cosine(rho, 11)
    assert cosine(-0.09, 11) == -0.09


def test_one_of_and_extra_name_the_choice() -> None:
    with pytest.raises(InputError, match="--dtype must be one of a, b, got 'c'"):
        one_of("--dtype", "c", ["a", "b"])
    with pytest.raises(InputError, match=r"pip install 'attnlim\[models\]'"):
        extra("no_such_module_anywhere", "models")
    with pytest.raises(InputError, match=r"pip install 'attnlim\[report\]'"):
        installed("no_such_module_anywhere", "report")
