"""Everything in these pages that comes from the finished audit of SmolLM2, made anew from its run folder.

Run ``python docs/from_run.py RUN``. It writes data/audit-smollm2.nc (the dataset in float32, without most of the
samples), data/run.json and the images. The numbers in the pages are then checked against the data by tests/docs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from attnlim.core.runs import open_run

HERE = Path(__file__).parent
KEPT_SAMPLES = ("sample_entropy", "sample_log_visible", "sample_rows")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WIDTH, TOP = 1200, 1250


def store(run: Path) -> None:
    """The dataset as NetCDF 3, which xarray reads without a further package."""
    data, record = open_run(run)
    dropped = [name for name in data.data_vars if str(name).startswith("sample_") and name not in KEPT_SAMPLES]
    small = data.drop_vars(dropped)
    small = small.map(lambda values: values.astype("float32") if values.dtype == "float64" else values, keep_attrs=True)
    small.assign_attrs(data.attrs).to_netcdf(HERE / "data" / "audit-smollm2.nc", engine="scipy")
    del record["arguments"]["source"]  # a path of the machine that ran it
    (HERE / "data" / "run.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def photograph(run: Path) -> None:
    """The top of the report, and the part with its maps, in light colours."""
    browser_path = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(FLAGS))
        page = browser.new_page(viewport={"width": WIDTH, "height": TOP}, color_scheme="light")
        page.goto((run / "report.html").resolve().as_uri())
        page.wait_for_timeout(1500)
        _shrink(page.screenshot(), HERE / "images" / "report-smollm2.png")
        page.set_viewport_size({"width": WIDTH, "height": 2 * TOP})
        maps = page.locator("section[aria-labelledby=maps-title]")
        maps.scroll_into_view_if_needed()
        page.wait_for_timeout(500)
        _shrink(maps.screenshot(), HERE / "images" / "report-smollm2-maps.png")
        browser.close()


def _shrink(png: bytes, path: Path) -> None:
    path.write_bytes(png)
    with Image.open(path) as image:
        image.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def main(run: Path) -> None:
    """Store, draw, photograph."""
    store(run)
    figure = HERE / "images" / "phases-smollm2.svg"
    subprocess.run([sys.executable, HERE.parent / "examples" / "phases_figure.py", run, figure], check=True)
    photograph(run)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
