"""The notation table: one meaning for a symbol, a name for every quantity, an error that lists the names."""

from collections import Counter

import pytest

from attnlim.core.checks import InputError
from attnlim.core.symbols import Symbol, lookup, markdown_table, table


@pytest.mark.parametrize("key", ["symbol", "name"])
def test_unique_within_a_package(key: str) -> None:
    counts = Counter((entry.package, getattr(entry, key)) for entry in table())
    assert [item for item, count in counts.items() if count > 1] == []


def test_names_are_python_names_and_nothing_is_empty() -> None:
    for entry in table():
        assert entry.name.isidentifier(), entry
        assert all(value.strip() for value in vars(entry).values()), entry


def test_a_quantity_shared_by_packages_keeps_its_symbol() -> None:
    for name in ("gamma_c", "entropy", "perplexity", "participation", "kappa", "critical_multiplier"):
        assert lookup("context", name).symbol == lookup("audit", name).symbol
        assert lookup("context", name).unit == lookup("audit", name).unit


def test_every_exported_closed_form_argument_has_an_entry() -> None:
    for name in ("n_tokens", "rho", "gamma", "beta", "alpha", "q", "sigma", "width", "k_min", "self_weight"):
        assert isinstance(lookup("context", name), Symbol)


def test_markdown_has_a_row_for_each_symbol_and_whole_cells() -> None:
    lines = markdown_table().splitlines()
    assert len(lines) == 2 + len(table())
    assert {line.count("|") for line in lines} == {7}


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match=r"must be one of n_tokens, .*got 'lr'"):
        lookup("context", "lr")
    with pytest.raises(InputError, match="package must be one of audit, context, core, depth, rules, got 'contxt'"):
        table("contxt")
