"""Everything in these pages that comes from the finished audit of SmolLM2, made anew from its run folder.

Run ``python docs/from_run.py RUN``. It writes data/audit-smollm2.nc (the dataset in float32, without most of the
samples), data/run.json, the images, and the blocks that stand below a ``<!-- printed by`` comment. Sentences and
doctest outputs stay as they are: tests/docs compares them with the data and names the ones to mend.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import xarray as xr
from PIL import Image
from playwright.sync_api import sync_playwright

from attnlim.audit import verdict
from attnlim.cli.audit import _show
from attnlim.core.runs import open_run
from attnlim.core.symbols import markdown_table
from attnlim.report import write_report

HERE = Path(__file__).parent
KEPT_SAMPLES = (
    *("sample_entropy", "sample_log_visible", "sample_rows"),
    *("sample_rho_input", "sample_rho_residual"),
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WIDTH, TOP = 1200, 1250


def store(data: xr.Dataset, record: dict[str, Any]) -> None:
    """The dataset as NetCDF 3, which xarray reads without a further package."""
    dropped = [name for name in data.data_vars if str(name).startswith("sample_") and name not in KEPT_SAMPLES]
    small = data.drop_vars(dropped)
    small = small.map(lambda values: values.astype("float32") if values.dtype == "float64" else values, keep_attrs=True)
    small.assign_attrs(data.attrs).to_netcdf(HERE / "data" / "audit-smollm2.nc", engine="scipy")
    arguments = {name: value for name, value in record["arguments"].items() if name != "source"}  # a local path
    text = json.dumps({**record, "arguments": arguments}, indent=1, ensure_ascii=False)
    (HERE / "data" / "run.json").write_text(text + "\n", encoding="utf-8")


def photograph(report: Path) -> None:
    """The top of the report, and the part with its maps, in light colours."""
    browser_path = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(FLAGS))
        page = browser.new_page(viewport={"width": WIDTH, "height": TOP}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        page.wait_for_timeout(1500)
        _shrink(page.screenshot(), HERE / "images" / "report-smollm2.png")
        maps = page.locator("section[aria-labelledby=maps-title]")
        maps.scroll_into_view_if_needed()
        page.wait_for_timeout(500)
        _shrink(maps.screenshot(), HERE / "images" / "report-smollm2-maps.png")
        browser.close()


def _shrink(png: bytes, path: Path) -> None:
    path.write_bytes(png)
    with Image.open(path) as image:
        image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            path, optimize=True
        )


def printed(data: xr.Dataset) -> str:
    """What the audit prints at its end, 100 columns wide."""
    os.environ["COLUMNS"] = "100"
    with redirect_stdout(io.StringIO()) as caught:
        _show(data, Path("runs/audit-smollm2"), as_json=False)
    return "\n".join(line.rstrip() for line in caught.getvalue().strip().splitlines())


def put(name: str, block: str) -> None:
    """Replace what stands below the page's ``<!-- printed by`` comment: a table, or a fenced block."""
    path = HERE / name
    text = path.read_text(encoding="utf-8")
    begin = text.index("-->\n\n", text.index("<!-- printed by")) + 5
    fenced = text.startswith("```", begin)
    end = text.index("\n```\n", begin) + 4 if fenced else text.find("\n\n", begin)
    rest = text[end:] if end > 0 else "\n"
    path.write_text(text[:begin] + (f"```text\n{block}\n```" if fenced else block) + rest, encoding="utf-8")


def main(run: Path) -> None:
    """Store, draw, photograph, print; the verdict is worded anew from the data."""
    data, record = open_run(run)
    data = data.assign_attrs(verdict=verdict(data))
    store(data, record)
    figure = HERE / "images" / "phases-smollm2.svg"
    command = [sys.executable, str(HERE.parent / "examples" / "phases_figure.py"), str(run), str(figure)]
    put("phases.md", subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    with tempfile.TemporaryDirectory() as folder:
        photograph(write_report(data, record, Path(folder) / "report.html"))
    put("audit.md", printed(data))
    put("notation.md", markdown_table())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
