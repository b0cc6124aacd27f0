"""How much memory this process has held."""

from __future__ import annotations

import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def standing_bytes(weights: int, device: str) -> int:
    """What a run stands on when it begins: on a CPU all that this process has held so far, elsewhere a model's weights.

    Args:
        weights: bytes of the model's parameters.
        device: where they lie, such as "cpu" or "cuda:1".

    >>> standing_bytes(10**15, "cpu"), standing_bytes(7, "cuda:1")
    (1000000000000000, 7)
    """
    return max(weights, peak_bytes() or 0) if device == "cpu" else weights


def peak_bytes() -> int | None:
    """Bytes of main memory that this process has held at most, without what it has on a device.

    Linux tells it of the process alone; elsewhere, what the process that started this one held before counts too.

    Returns:
        At least 1; None where the system does not say, such as on Windows.

    >>> peak_bytes() is None or peak_bytes() > 1_000_000
    True
    """
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
