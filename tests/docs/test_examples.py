"""What README and the pages show is run: Python blocks, commands, and the output that stands below them."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
from tests.forks import Forks

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
LANGUAGES = {"python", "console", "text"}
# where each command starts a Python of its own, as a reader's does; the other pages vary the arguments, in forks
FRESH = ("README.md", "reproduce.md")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text and the line on which the text begins."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [Block(match[1], match[2], text[: match.start(2)].count("\n") + 1) for match in found]


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Each command behind a "$ ", and the output that is shown for it."""
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def having(language: str) -> list[Path]:
    return [page for page in PAGES if any(block.language == language for block in blocks(page))]


@pytest.fixture
def place(tmp_path: Path, stored_run: Path, monkeypatch: pytest.MonkeyPatch, one_thread: Any) -> Path:
    """An empty folder but for the run that the pages quote."""
    shutil.copytree(stored_run, tmp_path / "runs" / "audit-smollm2")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_has_a_language_that_is_checked(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{named(page)}:{block.line}: {block.language!r}"
        if block.language == "text":
            asked = [line for line in block.text.splitlines() if line.startswith(("$ ", "attnlim "))]
            assert not asked or block.text.startswith("# not run here"), f"{named(page)}:{block.line}: {asked}"


@pytest.mark.parametrize("page", having("python"), ids=named)
def test_python_blocks(page: Path, place: Path) -> None:
    namespace: dict[str, Any] = {}
    runner, told = doctest.DocTestRunner(optionflags=OPTIONS), list[str]()
    for block in blocks(page):
        if block.language != "python":
            continue
        if ">>> " in block.text:
            test = doctest.DocTestParser().get_doctest(block.text, namespace, named(page), str(page), block.line - 1)
            runner.run(test, out=told.append, clear_globs=False)
            namespace = test.globs
        else:
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)
    assert not told, "".join(told)


@pytest.mark.parametrize("page", having("console"), ids=named)
def test_console_blocks(page: Path, place: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(place / "runs")  # a reader begins with no run at all
    monkeypatch.setenv("COLUMNS", "100")
    call = called_fresh if page.name in FRESH else partial(called, forks)
    checker = doctest.OutputChecker()
    for block in blocks(page):
        if block.language != "console":
            continue
        for command, shown in commands(block):
            where = f"{named(page)}:{block.line}: {command}"
            words = shlex.split(command)
            assert words[0] == "attnlim", f"{where}: only attnlim is run; put other commands into a text block"
            code, printed = call(words[1:])
            assert code == (2 if shown.startswith("attnlim: ") else 0), f"{where}\n{printed}"
            if shown.strip():
                wanted = re.sub(r"\s+", " ", shown).strip() + "\n"
                got = re.sub(r"\s+", " ", printed).strip() + "\n"
                assert checker.check_output(wanted, got, OPTIONS), f"{where}\nshown:\n{shown}\ngot:\n{printed}"


def called_fresh(words: list[str]) -> tuple[int, str]:
    """Exit code of a command and all that it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "attnlim", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.returncode, done.stdout


def called(forks: Forks, words: list[str]) -> tuple[int | None, str]:
    """The same of a fork."""
    with NamedTemporaryFile() as printed:
        code = forks.begin(*words, cwd=Path.cwd(), stdout=printed.name, stderr=printed.name).wait()
        return code, printed.read().decode()


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs" / "api").glob("*.md"))], ids=named)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{named(page)}: {target}"
