"""Token files: what is read is what was written; everything else gives one line with the file's name."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from attnlim.context.samplers import sphere_tokens
from attnlim.context.token_files import read_tokens
from attnlim.core import checks
from attnlim.core.checks import InputError

TOKENS = sphere_tokens(6, 4)


def saved(path: Path, array: Any, **settings: Any) -> Path:
    np.save(path, array, **settings)
    return path


@pytest.mark.parametrize(("kind", "wanted"), [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), (">f4", "f4"), (">f8", "f8")])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(tmp_path: Path, kind: str, wanted: str, order: Any) -> None:
    array = np.array(TOKENS.numpy().astype(kind), order=order)
    found = read_tokens(saved(tmp_path / "a.npy", array))
    assert found.numpy().dtype == np.dtype(wanted)
    assert found.is_contiguous()
    np.testing.assert_array_equal(found.numpy(), array.astype(wanted))


def test_what_was_read_lives_without_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npy", TOKENS.numpy())
    found = read_tokens(str(path))
    path.write_bytes(b"")
    found += 1
    assert torch.equal(found, TOKENS + 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_safetensors(tmp_path: Path, dtype: torch.dtype) -> None:
    path, tokens = tmp_path / "a.safetensors", TOKENS.to(dtype)
    save_file({"x": tokens, "y": 2 * tokens, "model.layers:0": 3 * tokens}, path)
    wanted = torch.float64 if dtype == torch.float64 else torch.float32
    for name, factor in (("x", 1), ("y", 2), ("model.layers:0", 3)):
        found = read_tokens(f"{path}:{name}")
        assert found.dtype == wanted
        assert torch.equal(found, (factor * tokens).to(wanted))
    save_file({"only": tokens}, path)
    assert torch.equal(read_tokens(path), tokens.to(wanted))


def test_safetensors_that_do_not_say_which(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({f"t{i}": TOKENS.clone() for i in range(7)}, path)
    with pytest.raises(
        InputError,
        match=r"a.safetensors holds 7 tensors; name one as .*a.safetensors:NAME, there are t0, t1, t2, t3, t4 and 2 more",
    ):
        read_tokens(path)
    with pytest.raises(InputError, match=r"has no tensor 'x'; name one"):
        read_tokens(f"{path}:x")
    with pytest.raises(InputError, match="has no tensor ''"):
        read_tokens(f"{path}:")
    save_file({}, path)
    with pytest.raises(InputError, match="holds 0 tensors; write one with"):
        read_tokens(path)


def test_the_extra_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_file({"x": TOKENS}, tmp_path / "a.safetensors")
    monkeypatch.setattr(checks.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(InputError, match=r"needs the package 'safetensors' .*pip install 'attnlim\[models\]'"):
        read_tokens(tmp_path / "a.safetensors")
    # NumPy's format needs none
    assert read_tokens(saved(tmp_path / "a.npy", TOKENS.numpy())).shape == (6, 4)


@pytest.mark.parametrize("suffix", ["npy", "safetensors"])
def test_files_cut_short(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        saved(path, TOKENS.numpy())
    else:
        save_file({"x": TOKENS}, path)
    whole = path.read_bytes()
    for length in (0, 3, 7, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=rf"a.{suffix} cannot be read as .*{suffix} \(.*\)") as raised:
            read_tokens(path)
        assert "\n" not in str(raised.value)
    path.write_bytes(b"\x80\x04 neither one nor the other" * 9)
    with pytest.raises(InputError, match="cannot be read as"):
        read_tokens(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["npy", "safetensors"]), st.integers(0, 150), st.binary(min_size=1, max_size=4))
def test_damaged_headers(tmp_path: Path, suffix: str, place: int, damage: bytes) -> None:
    """Whatever stands in the header, it is tokens or one line."""
    path = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        saved(path, TOKENS.numpy())
    else:
        save_file({"x": TOKENS}, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:place] + damage + whole[place + len(damage) :])
    refusal = f"{path} \n"
    try:
        assert read_tokens(path).ndim == 2
    except InputError as reason:
        refusal = f"{reason}\n"
    assert str(path) in refusal and refusal.count("\n") == 1


def test_a_header_that_promises_a_terabyte_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000), }"
    padded = header + b" " * (117 - len(header)) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + TOKENS.numpy().tobytes())
    with pytest.raises(InputError, match="cannot be read as .npy"):
        read_tokens(path)


class Harmful:
    """An object whose unpickling would leave a trace."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('a pickle ran')",)


def test_pickled_objects_are_refused_and_not_run(tmp_path: Path) -> None:
    array = np.array([[Harmful()]], dtype=object)
    path = saved(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(InputError, match=r"a.npy cannot be read as .npy \(.*Python objects in dtype\); write it with"):
        read_tokens(path)
    array.dump(tmp_path / "b.npy")
    with pytest.raises(InputError, match=r"b.npy cannot be read as .npy \(the magic string is not correct"):
        read_tokens(tmp_path / "b.npy")


def test_an_archive_is_not_one_array(tmp_path: Path) -> None:
    with open(tmp_path / "a.npy", "wb") as file:
        np.savez(file, x=TOKENS.numpy())
    with pytest.raises(InputError, match="a.npy cannot be read as .npy .*write it with numpy.save"):
        read_tokens(tmp_path / "a.npy")


def broken_tokens(value: float) -> np.ndarray:
    array = TOKENS.numpy().copy()
    array[2] = value
    return array


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((3, 2), dtype=np.int64), "tokens must be float16, bfloat16, float32 or float64, got int64; convert"),
        (np.ones((3, 2), dtype=bool), "got bool"),
        (np.ones((3, 2), dtype=complex), "got complex128"),
        (np.full((3, 2), "x"), "got <U1"),
        (np.ones(6), r"tokens must have shape \(n, d\) with n >= 2 and d >= 1, got \(6,\)"),
        (np.ones((2, 3, 2)), r"got \(2, 3, 2\)"),
        (np.ones((1, 3)), r"got \(1, 3\)"),
        (np.ones((3, 0)), r"got \(3, 0\)"),
        (np.array(1.0), r"got \(\)"),
        (broken_tokens(np.nan), "tokens must be finite, got NaN or inf"),
        (broken_tokens(np.inf), "tokens must be finite, got NaN or inf"),
        (broken_tokens(0.0), "zero norm at token 2"),
    ],
)
def test_arrays_that_are_no_tokens(tmp_path: Path, array: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=f"a.npy: .*{message}") as raised:
        read_tokens(saved(tmp_path / "a.npy", array))
    assert "\n" not in str(raised.value)


def test_tensors_that_are_no_tokens(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    for tensor, message in (
        (torch.ones(3, 2, dtype=torch.int32), "got torch.int32; convert them"),
        (torch.ones(3), r"shape \(n, d\)"),
        (torch.full((3, 2), torch.nan), "must be finite"),
        (torch.zeros(3, 2), "zero norm at token 0"),
        (torch.full((2, 2), torch.inf, dtype=torch.bfloat16), "must be finite"),
    ):
        save_file({"x": tensor}, path)
        with pytest.raises(InputError, match=message):
            read_tokens(f"{path}:x")


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "folder.npy").mkdir()
    for name, message in (
        ("missing.npy", "missing.npy does not exist; give the path of a .npy or .safetensors file"),
        ("missing.safetensors:x", "missing.safetensors does not exist"),
        ("folder.npy", "folder.npy is not a file"),
        ("a.pt", "a.pt: tokens come from a .npy or a .safetensors file"),
        ("", "tokens come from"),
        ("gaussian", "gaussian: tokens come from"),
    ):
        with pytest.raises(InputError, match=message):
            read_tokens(str(tmp_path / name) if name else "")
