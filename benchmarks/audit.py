"""The audit against the plain forward of the same windows: wall time and peak memory, in alternation.

Run with `make bench` or `python -m benchmarks.audit [--context 8192]`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from statistics import median
from typing import Any

import numpy as np
import torch

from attnlim.audit import naive
from attnlim.audit.probing import anatomy, probe
from attnlim.audit.sampling import sample_rows
from attnlim.audit.statistics import Rows, row_statistics
from attnlim.core.memory import peak_bytes
from attnlim.core.seeds import generator
from attnlim.models import cut_windows, load, read_text
from attnlim.models.hook import AttentionCall, attached
from benchmarks.machine import rates, seconds, write

N_WINDOWS, N_ROWS = 4, 256


def prepare(n_tokens: int) -> tuple[Any, Any, torch.Tensor, Any]:
    loaded = load("smollm2", device="cpu")
    windows = cut_windows(loaded.tokenizer, read_text(), N_WINDOWS, n_tokens)
    rows = torch.from_numpy(sample_rows(n_tokens, N_ROWS, True, generator(0, "rows", n_tokens, 0)))
    return loaded.model, windows, rows, anatomy(loaded.model, windows.ids(0, 8))


def plain(model: Any, ids: torch.Tensor) -> None:
    with torch.inference_mode():
        model(input_ids=ids, use_cache=False)


def wall_times(n_tokens: int) -> dict[str, Any]:
    """Plain and audited forwards of every window in turn; who goes first changes with the window."""
    model, windows, rows, parts = prepare(n_tokens)
    times: dict[str, list[float]] = {"plain": [], "audit": []}
    plain(model, windows.ids(0, min(1024, n_tokens)))
    for window in range(N_WINDOWS):
        ids = windows.ids(window, n_tokens)
        for kind in ("plain", "audit") if window % 2 == 0 else ("audit", "plain"):
            start = time.perf_counter()
            if kind == "plain":
                plain(model, ids)
            else:
                probe(model, ids, rows, parts)
            times[kind].append(time.perf_counter() - start)
    ratios = [audit / base for audit, base in zip(times["audit"], times["plain"], strict=True)]
    return {
        "plain_seconds": times["plain"],
        "audit_seconds": times["audit"],
        "median_ratio": median(ratios),
        "ratios": ratios,
    }


def child_peak_bytes(kind: str, n_tokens: int) -> int:
    """Peak resident memory of a process that does one forward."""
    command = [sys.executable, "-m", "benchmarks.audit", "--context", str(n_tokens), "--child", kind]
    return int(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def child(kind: str, n_tokens: int) -> None:
    model, windows, rows, parts = prepare(n_tokens)
    ids = windows.ids(0, n_tokens)
    if kind == "plain":
        plain(model, ids)
    else:
        probe(model, ids, rows, parts)
    print(peak_bytes())


def statistics_alone(n_tokens: int) -> dict[str, float]:
    """The row statistics of one layer against their twin and against what this machine's parts would take."""
    model, windows, rows, _ = prepare(n_tokens)
    calls: list[AttentionCall] = []
    with attached(model, calls.append):
        plain(model, windows.ids(0, n_tokens))
    query, key, scaling = calls[4].query[0], calls[4].key[0], calls[4].scaling
    visible = torch.arange(n_tokens) <= rows[:, None]
    fast = seconds(lambda: row_statistics(query, key, Rows(rows, visible, 0), scaling), 3)
    few = rows[:: len(rows) // 16]
    start = time.perf_counter()
    for row in few.tolist():
        naive.row_statistics(query[0, row].numpy(), key[0].numpy(), np.arange(n_tokens) <= row, row, 0, scaling)
    keys_seen = float((rows + 1).sum())
    slow = (time.perf_counter() - start) / float((few + 1).sum()) * keys_seen * query.shape[0]
    elements, rate = keys_seen * query.shape[0], rates()
    limit = (
        2 * elements * query.shape[-1] / rate["float64_matmul_flops"]
        + elements / rate["float64_exp"]
        + elements / rate["float32_sort"]
    )
    return {
        "seconds_a_layer": fast,
        "times_faster_than_twin": slow / fast,
        "limit_seconds": limit,
        "share_of_limit": limit / fast,
        **rate,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--child", choices=("plain", "audit"))
    given = parser.parse_args()
    if given.child:
        child(given.child, given.context)
        return
    peaks = [(child_peak_bytes("plain", given.context), child_peak_bytes("audit", given.context)) for _ in range(2)]
    figures = {
        "model": "SmolLM2-135M-Instruct (4-bit weights, dequantised)",
        "context": given.context,
        "windows": N_WINDOWS,
        "rows_a_window": N_ROWS,
        "wall": wall_times(given.context),
        "peak_memory": {
            "plain_bytes": [plain for plain, _ in peaks],
            "audit_bytes": [audit for _, audit in peaks],
            "median_ratio": median(audit / plain for plain, audit in peaks),
        },
        "row_statistics": statistics_alone(min(given.context, 4096)),
    }
    write("audit", figures)


if __name__ == "__main__":
    main()
