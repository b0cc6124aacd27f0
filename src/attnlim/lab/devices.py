"""Where the cells of a sweep run."""

from __future__ import annotations

from attnlim.core.checks import InputError


def usable_device(device: str | None, elsewhere: bool = False) -> str:
    """The device of a sweep's cells: the one that is named, else cuda if there is one here, else the CPU.

    Args:
        device: such as "cpu" or "cuda:1"; None takes the default.
        elsewhere: cells run on other machines: the device is not tried here, and the CPU unless it is named.

    Raises:
        InputError: a device that cannot be used here.
    """
    import torch

    if elsewhere:
        return device or "cpu"
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as reason:
        first = str(reason).strip().splitlines()[0].rstrip(".;: ")
        raise InputError(f"--device {device} cannot be used here ({first}); try --device cpu") from reason
    return device
