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


@pytest.fixture
def open_report(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Write a dataset's report, open it, and fail at the end on any error or any request beyond the file."""
    contexts, problems = [], []

    def opener(dataset: Any, run: Any, wait_for: str, scheme: str = "light", width: int = 1200) -> Any:
        path = write_report(dataset, run, tmp_path / "report.html")
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"page error: {error}"))
        page.on("dialog", lambda dialog: (problems.append("a dialog opened"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                request.url.startswith(("file://", "data:", "blob:")) or problems.append(f"request: {request.url}")
            ),
        )
        page.goto(path.as_uri())
        page.wait_for_selector(wait_for)
        return page

    yield opener
    for context in contexts:
        context.close()
    assert problems == []
