"""A long window behind a beginning that was read once, against the same window read whole, in two precisions and under other settings.

Run with `python -m benchmarks.windows [--contexts 16384,32768] [--rounds 1] [--name windows]`; a quarter of an hour. It shows from
which stretch on `attnlim rescale` should read windows whole, what glibc's habit of handing large blocks back to the kernel costs
beside that, and, on a processor that Intel did not make, what MKL's choice of slower code for it costs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from attnlim.models import cut_windows, load, read_text
from attnlim.rules.variant_running import shared_prefix, window_nll
from attnlim.rules.variants import Variant, fixed_variants
from benchmarks.machine import machine, write

TRAINED = 8192
# blocks stay with the process, which the kernel would otherwise clear anew for every mask
KEEPING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "20000000000", "MALLOC_TOP_PAD_": "268435456"}
CASES = [("float32", "usual"), ("bfloat16", "usual"), ("bfloat16", "keeping")]
OTHER_MAKER = [("float32", "answered"), ("bfloat16", "answered")]
# MKL asks this function who made the processor; preloaded, it says Intel, and the code of the instructions that there are is taken
ANSWER = "int mkl_serv_intel_cpu_true(void) { return 1; }"


def measured(dtype: str, contexts: list[int], rounds: int) -> list[dict[str, Any]]:
    """One entry a context: seconds behind the beginning and whole, in turn; who goes first changes with the round."""
    loaded = load("smollm2", device="cpu", dtype=dtype, head=True)
    ids = cut_windows(loaded.tokenizer, read_text(), 1, max(contexts)).ids(0, max(contexts))
    found = []
    for n in contexts:
        window, stretch, variant = ids[:, :n], n / TRAINED, _without_scaling(n)
        prefix = shared_prefix(loaded.model, window, TRAINED, stretch)
        ways: dict[str, Callable[[], Any]] = {
            "behind": lambda w=window, v=variant, s=stretch, p=prefix: window_nll(loaded.model, w, v, s, p),
            "whole": lambda w=window, v=variant, s=stretch: window_nll(loaded.model, w, v, s),
        }
        spent: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(rounds):
            for name in list(ways)[:: 1 if turn % 2 == 0 else -1]:
                start = time.perf_counter()
                ways[name]()
                spent[name].append(time.perf_counter() - start)
        found.append({"n_tokens": n, **spent, "whole_over_behind": median(spent["whole"]) / median(spent["behind"])})
    return found


def _without_scaling(target: int) -> Variant:
    return next(one for one in fixed_variants(TRAINED, target) if one.name == "none")


def main() -> None:
    """Run it from the command line; each precision and setting has a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", default="16384,32768")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--name", default="windows", help="of the result file")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), help="measure this one here and print it")
    given = parser.parse_args()
    contexts = [int(n) for n in given.contexts.split(",")]
    if given.dtype:
        print(json.dumps(measured(given.dtype, contexts, given.rounds)))
        return
    command = [sys.executable, "-m", "benchmarks.windows", "--contexts", given.contexts, "--rounds", str(given.rounds)]
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = {"usual": {}, "keeping": KEEPING, "answered": {"LD_PRELOAD": str(Path(folder) / "answer.so")}}
        if other_maker := "Intel" not in machine()["processor"]:
            compiler = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", settings["answered"]["LD_PRELOAD"]]
            subprocess.run(compiler, input=ANSWER, text=True, check=True)
        for dtype, setting in CASES + other_maker * OTHER_MAKER:
            child = subprocess.run(
                [*command, "--dtype", dtype],
                env=os.environ | settings[setting],
                capture_output=True,
                text=True,
                check=True,
            )
            figures[f"{dtype}, {setting}"] = json.loads(child.stdout.splitlines()[-1])
    write(
        given.name,
        {
            "model": "SmolLM2-135M-Instruct (4-bit weights, dequantised)",
            "trained": TRAINED,
            "rounds": given.rounds,
            **figures,
        },
    )


if __name__ == "__main__":
    main()
