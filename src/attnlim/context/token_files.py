"""Tokens from a file: NumPy's .npy, or a tensor of a .safetensors file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.context.arguments import unit_tokens
from attnlim.core.checks import InputError, extra

_WIDENED = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}
_MARK = ".safetensors:"


def read_tokens(path: str | Path) -> Tensor:
    """The tokens in a file.

    Nothing in the file is run: pickled objects are refused, and sizes are compared with the file's before
    memory is taken.

    Args:
        path: ``FILE.npy``, ``FILE.safetensors`` with a single tensor, or ``FILE.safetensors:NAME``; a real array of
            shape (n, d), n ≥ 2, d ≥ 1, of float16, bfloat16, float32 or float64, finite, no token of zero norm.

    Returns:
        (n, d) float32, or float64 where the file holds that.

    Raises:
        InputError: anything else, with the file's name.

    >>> read_tokens("tokens.csv")
    Traceback (most recent call last):
    attnlim.core.checks.InputError: tokens.csv: tokens come from a .npy or a .safetensors file; save them as one
    """
    name = str(path)
    file, found, key = name.rpartition(_MARK)
    if found:
        stored, tensor_name = Path(file + _MARK[:-1]), key
    else:
        stored, tensor_name = Path(name), ""
    stored = stored.expanduser()
    if stored.suffix not in (".npy", ".safetensors"):
        raise InputError(f"{name}: tokens come from a .npy or a .safetensors file; save them as one")
    if not stored.is_file():
        what = "is not a file" if stored.exists() else "does not exist"
        raise InputError(f"{stored} {what}; give the path of a .npy or .safetensors file")
    tokens = _from_npy(stored) if stored.suffix == ".npy" else _from_safetensors(stored, tensor_name, bool(found))
    try:
        unit_tokens(tokens)
    except InputError as reason:
        raise InputError(f"{name}: {reason}") from reason
    return tokens


def _from_npy(path: Path) -> Tensor:
    try:
        # mapped: nothing is unpickled, and a header that promises more than the file holds takes no memory
        stored: Any = np.lib.format.open_memmap(path, mode="r")
    except Exception as reason:  # its header is read as Python literals, which fail in many ways
        raise InputError(
            f"{path} cannot be read as .npy ({_first_line(reason)}); write it with numpy.save, numbers only"
        ) from reason
    if stored.dtype.kind != "f" or stored.dtype.itemsize > 8:
        raise InputError(f"{path}: {_wanted(stored.dtype)}")
    native = np.array(stored, dtype=stored.dtype.newbyteorder("="), order="C")
    return _widened(torch.from_numpy(native))


def _from_safetensors(path: Path, name: str, named: bool) -> Tensor:
    safetensors = extra("safetensors", "models")
    try:
        with safetensors.safe_open(path, framework="pt") as stored:
            names = sorted(stored.keys())
            if not named and len(names) == 1:
                name = names[0]
            if name not in names:
                came = f"has no tensor {name!r}" if named else f"holds {len(names)} tensors"
                raise InputError(f"{path} {came}; {_choices(path, names)}")
            tensor: Tensor = stored.get_tensor(name)
    except InputError:
        raise
    except Exception as reason:  # its own error, and those of the system
        raise InputError(
            f"{path} cannot be read as safetensors ({_first_line(reason)}); it may be cut short, write it anew"
        ) from reason
    if tensor.dtype not in _WIDENED:
        raise InputError(f"{path}: {_wanted(tensor.dtype)}")
    return _widened(tensor)


def _widened(tensor: Tensor) -> Tensor:
    return tensor.to(_WIDENED[tensor.dtype]).contiguous()


def _wanted(dtype: Any) -> str:
    return f"tokens must be float16, bfloat16, float32 or float64, got {dtype}; convert them before saving"


def _choices(path: Path, names: list[str]) -> str:
    if not names:
        return "write one with safetensors.torch.save_file"
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"name one as {path}:NAME, there are {shown}"


def _first_line(reason: BaseException) -> str:
    lines = str(reason).strip().splitlines()
    return lines[0].rstrip(".;: ") if lines else type(reason).__name__
