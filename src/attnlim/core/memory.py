"""How much memory this process has held."""

from __future__ import annotations

import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


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
