"""Synthetic datasets and a headless browser for the report's tests."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from attnlim.report import write_report

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# quiet and offline: no GPU process, no update checks
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def _beside(name: str) -> ModuleType:
    """The module of that name in this folder."""
    spec = importlib.util.spec_from_file_location(f"report_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def synthetic() -> ModuleType:
    """Audits."""
    return _beside("synthetic")


@pytest.fixture(scope="session")
def phases() -> ModuleType:
    """Phase diagrams."""
    return _beside("synthetic_phase")


@pytest.fixture(scope="session")
def reproductions() -> ModuleType:
    """Reproductions of the first paper."""
    return _beside("synthetic_critical")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.fail("the report's test opens it in a browser and found none: sudo apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture(scope="session")
def tab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A tab, and the one file that it shows: only for the same file in the same tab does Chromium keep plotly.js
    compiled. Every test loads a document of its own."""
    return browser.new_context().new_page(), tmp_path_factory.mktemp("tab") / "report.html"


@pytest.fixture
def open_report(tab: tuple[Any, Path]) -> Iterator[Callable[..., Any]]:
    """Write a dataset's report, open it, and fail at the end on any error or any request beyond the file."""
    page, path = tab
    problems = []
    watched = {
        "console": lambda message: problems.append(f"console {message.type}: {message.text}"),
        "pageerror": lambda error: problems.append(f"page error: {error}"),
        "dialog": lambda dialog: (problems.append("a dialog opened"), dialog.dismiss()),
        "request": lambda request: (
            request.url.startswith(("file://", "data:", "blob:")) or problems.append(f"request: {request.url}")
        ),
    }

    for event, listener in watched.items():
        page.on(event, listener)

    def opener(dataset: Any, run: Any, wait_for: str, scheme: str = "light", width: int = 1200) -> Any:
        write_report(dataset, run, path)
        page.mouse.move(0, 0)
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_selector(wait_for)
        return page

    yield opener
    for event, listener in watched.items():
        page.remove_listener(event, listener)
    assert problems == []
