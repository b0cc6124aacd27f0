"""One thread a core over independent blocks, each with operations of a single thread.

Matrix products with few columns do not profit from two threads inside one product, but two products side by side
run at twice the rate. And since no operation is split, the numbers do not depend on how many threads there are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Block = TypeVar("Block")
Result = TypeVar("Result")

_guard = threading.Lock()
_users, _threads_before = 0, 1


def over_blocks(
    work: Callable[[Block], Result], blocks: Sequence[Block], device: torch.device, width: int | None = None
) -> list[Result]:
    """The result of ``work`` on every block, in the order of the blocks.

    On a CPU ``torch.get_num_threads()`` threads share the blocks; elsewhere the device itself is parallel and the
    calling thread does them in turn. Numbers too small to be normal are flushed to 0 there, as they would make
    every operation a hundred times slower.

    Args:
        work: called once a block, from several threads at a time.
        blocks: the pieces of work.
        device: where their tensors are.
        width: threads at a time, instead of torch's own number.
    """
    if device.type != "cpu":
        return [work(block) for block in blocks]
    with _SingleThreaded() as n_threads, ThreadPoolExecutor(width or n_threads, initializer=_begin) as pool:
        return list(pool.map(work, blocks))


def _begin() -> None:
    torch.set_flush_denormal(True)  # of this thread alone
    torch.set_num_threads(1)


class _SingleThreaded:
    """Torch's operations use one thread until the last of those who asked for it is done."""

    def __enter__(self) -> int:
        global _users, _threads_before
        with _guard:
            if _users == 0:
                _threads_before = torch.get_num_threads()
            _users += 1
            torch.set_num_threads(1)
            return _threads_before

    def __exit__(self, *_: object) -> None:
        global _users
        with _guard:
            _users -= 1
            if _users == 0:
                torch.set_num_threads(_threads_before)
