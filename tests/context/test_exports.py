"""The public names: all there, loaded late, theory without torch, functions not shadowed by modules."""

import subprocess
import sys

import pytest

import attnlim.context


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


NO_TORCH = (
    "context",
    "context.theory",
    "context.criticality",
    "context.phases",
    "context.simplex_energy",
    "context.jacobian_limits",
    "context.half_weight",
    "context.simplex_layers",
    "context.stack_jacobian",
    "context.stability",
    "context.scaling_laws",
    "context.focus_thresholds",
    "context.random_energy",
    "context.independent_rows",
    "context.planted_scores",
    "core.numerics",
    "core.intervals",
    "core.symbols",
)


@pytest.mark.parametrize("module", NO_TORCH)
def test_no_torch(module: str) -> None:
    assert run(f"import sys, attnlim.{module}; print('torch' in sys.modules)") == "False"


def test_closed_forms_from_the_package_need_no_torch() -> None:
    code = "import sys; from attnlim.context import simplex_step, classify; print('torch' in sys.modules)"
    assert run(code) == "False"


def test_every_name_is_there_and_listed() -> None:
    for name in attnlim.context.__all__:
        assert getattr(attnlim.context, name) is not None
        assert name in dir(attnlim.context)
    assert sorted(attnlim.context._HOME) == sorted(attnlim.context.__all__)


def test_functions_are_not_shadowed_by_modules() -> None:
    """Importing a submodule sets it as an attribute of the package: none may be named like a public function."""
    code = (
        "import pkgutil, attnlim.context as c;"
        "print({m.name for m in pkgutil.iter_modules(c.__path__)} & set(c.__all__))"
    )
    assert run(code) == "set()"


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'focuss'"):
        attnlim.context.focuss  # noqa: B018
