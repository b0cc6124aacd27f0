"""The house rules: imports point down, help is instant, and modules have names that say what they hold."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "attnlim"
# cli → {audit, lab} → {rules, plan} → {context, depth, models, report} → core; none inside braces imports its neighbour
FLOORS = [{"core"}, {"context", "depth", "models", "report"}, {"rules", "plan"}, {"audit", "lab"}, {"cli"}]
FLOOR_OF = {package: number for number, packages in enumerate(FLOORS) for package in packages}


def imported_packages(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            names = [node.module or ""]
            names += [f"{node.module}.{alias.name}" for alias in node.names if node.module == "attnlim"]
        found |= {name.split(".")[1] for name in names if name.startswith("attnlim.")}
    return found & FLOOR_OF.keys()


@pytest.mark.parametrize(
    "package", sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name in FLOOR_OF)
)
def test_imports_point_down(package: str) -> None:
    files = list((SOURCE / package).rglob("*.py"))
    assert files
    for file in files:
        for other in imported_packages(file) - {package}:
            assert FLOOR_OF[other] < FLOOR_OF[package], f"{file.relative_to(SOURCE)} imports attnlim.{other}"


def test_every_package_has_a_floor() -> None:
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert packages <= FLOOR_OF.keys()


@pytest.mark.parametrize(
    "code",
    [
        "import attnlim, attnlim.context, attnlim.depth, attnlim.models, attnlim.audit, attnlim.lab, attnlim.report",
        "import attnlim.context.theory, attnlim.context.criticality, attnlim.context.phases",
        "import attnlim.core.checks, attnlim.core.runs, attnlim.core.cells, attnlim.core.intervals, attnlim.core.symbols",
        "import sys; sys.argv = ['attnlim', '--help']\nfrom attnlim.cli.main import main\ntry: main()\nexcept SystemExit: pass",
        "import sys; sys.argv = ['attnlim', 'audit', '--help']\nfrom attnlim.cli.main import main\ntry: main()\nexcept SystemExit: pass",
        "import sys; sys.argv = ['attnlim', 'phase', '--help']\nfrom attnlim.cli.main import main\ntry: main()\nexcept SystemExit: pass",
    ],
)
def test_no_torch_before_it_is_needed(code: str) -> None:
    heavy = "import sys; found = {'torch', 'transformers', 'plotly', 'matplotlib', 'distributed'} & set(sys.modules); assert not found, found"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{heavy}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_grab_bag_modules() -> None:
    names = {file.stem for file in SOURCE.rglob("*.py")}
    assert not names & {"utils", "util", "helpers", "helper", "common", "misc", "tools"}


def test_the_package_reexports_no_function_named_like_a_package() -> None:
    import attnlim

    assert not any(callable(getattr(attnlim, package, None)) for package in FLOOR_OF)


def test_bare_make_lists_the_targets() -> None:
    shown = subprocess.run(["make", "-s"], cwd=SOURCE.parents[1], capture_output=True, text=True, check=True).stdout
    for target in ("demo", "test", "lint", "bench", "docs"):
        assert f"\n{target} " in f"\n{shown}"
