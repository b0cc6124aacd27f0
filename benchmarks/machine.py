"""What a figure was measured on, and how fast this machine can go at all."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from attnlim.core.provenance import environment

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """Processor, cores, threads and versions."""
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        names = [
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ]
        model = names[0] if names else model
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": device,
        **environment(),
    }


def seconds(work: Callable[[], Any], repeats: int = 5) -> float:
    """Median wall time of ``work`` after one call that warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times)


def rates(n: int = 1 << 20) -> dict[str, float]:
    """This machine's own rates: matrix products (flop/s), and exponentials, products and sorted entries a second.

    The products of entries run on a tile that fits in the cache, as the kernels' do.
    """
    left, right = torch.rand(2048, 2048), torch.rand(2048, 2048)
    wide_left, wide_right = left[:1024, :1024].double(), right[:1024, :1024].double()
    values = torch.rand(128, n // 128)
    wide = values.double()
    array = values.numpy()
    tile = torch.rand(256, 512)
    return {
        "float32_matmul_flops": 2 * 2048**3 / seconds(lambda: left @ right),
        "float64_matmul_flops": 2 * 1024**3 / seconds(lambda: wide_left @ wide_right),
        "float32_exp": n / seconds(lambda: torch.exp(values)),
        "float64_exp": n / seconds(lambda: torch.exp(wide)),
        "float32_multiply": tile.numel() / seconds(lambda: tile.mul_(1.0), 100),
        "float32_sort": n / seconds(lambda: array.copy().sort(axis=1)),
    }


def write(name: str, figures: dict[str, Any]) -> None:
    """Print the figures, and keep them in results/NAME.json with the machine they were measured on."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"figures": figures, "machine": machine()}, indent=1, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(text)
