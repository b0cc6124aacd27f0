"""Cells as tasks of a Dask cluster: a local one with worker processes, or whichever scheduler listens at an address."""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import os
import signal
import threading
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from typing import Any

from attnlim.core.cells import Arrays, Cell
from attnlim.core.checks import InputError, extra, installed, whole_number
from attnlim.lab.sweeping import CellError, failed

LOCAL = "local"
# so often is a cell begun again after the death of its worker; Dask's own default is the same
RETRIES = 3
CONNECT_SECONDS = 10
# what must agree between this process and the workers, since it decides the numbers
_SAME_EVERYWHERE = ("attnlim", "torch", "numpy")


def check_cluster(cluster: str | None, workers: int | None) -> None:
    """Refuse what cannot be a cluster, before any work.

    Raises:
        InputError: the extra ``cluster`` is not installed, no scheduler answers at the address, or a number of workers
            that this process does not start.
    """
    if workers is not None:
        whole_number("--workers", workers, 1)
        if cluster != LOCAL:
            raise InputError(f"--workers starts processes on this machine, got it without --cluster {LOCAL}; add that")
    if cluster is not None:
        installed("distributed", "cluster")
        if cluster != LOCAL:
            _reach(cluster)


def worker_count(workers: int | None, threads: int) -> int:
    """Processes of a local cluster: ``workers``, or one for every ``threads`` cores that this process may use."""
    return workers or max(1, available_cores() // threads)


def available_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has it
        return os.cpu_count() or 1


@contextmanager
def connected(cluster: str, workers: int | None, threads: int) -> Iterator[Any]:
    """A client of the cluster; a local one is started before and closed after, whatever happens between.

    Raises:
        InputError: nothing answers at the address, or the extra ``cluster`` is not installed.
    """
    check_cluster(cluster, workers)
    distributed = extra("distributed", "cluster")
    with _quiet():
        if cluster != LOCAL:
            with distributed.Client(cluster, timeout=CONNECT_SECONDS, set_as_default=False) as client:
                yield client
            return
        # saturation: a task that only waits at a worker would share the blame for its death
        settings = {"distributed.scheduler.allowed-failures": RETRIES, "distributed.scheduler.worker-saturation": 1.0}
        with extra("dask.config", "cluster").set(settings), ExitStack() as stack:
            with _interrupts_held_back():
                local = distributed.LocalCluster(
                    n_workers=worker_count(workers, threads),
                    threads_per_worker=1,
                    memory_limit=0,  # else a cell is killed for a share of memory that it was never told of
                    dashboard_address="127.0.0.1:0",  # None would open one to the network
                    silence_logs=logging.CRITICAL,
                )
                client = distributed.Client(local, set_as_default=False)
                stack.callback(_close, client, local)
            yield client


def _close(client: Any, local: Any) -> None:
    with _interrupts_held_back():
        client.close()
        try:
            local.close()
        except Exception:
            # a worker that was just being started again cannot be joined, and Dask says so in the place of what came
            # of the run; the cluster counts as closing then, and would wait for itself
            local.status = type(local.status).failed
            local.close()


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let Ctrl-C wait until worker processes have started or ended; those that start here never see it themselves."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not hasattr(signal, "pthread_sigmask") or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        yield
        return
    came: list[int] = []
    resource_tracker.ensure_running()  # whichever thread starts it lets the signal through again
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # threads and processes begun here inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt


def _reach(address: str) -> None:
    """Make sure that a scheduler listens at ``address``: a client that finds none hangs when it is thrown away.

    Raises:
        InputError: it does not, or that is no address.
    """
    comm, core = extra("distributed.comm", "cluster"), extra("distributed.core", "cluster")
    security = extra("distributed", "cluster").Security()

    async def ask() -> str:
        arguments = security.get_connection_args("client")
        connection = await comm.connect(address, timeout=CONNECT_SECONDS, **arguments)
        try:
            return str((await core.send_recv(connection, op="identity", reply=True))["type"])
        finally:
            await connection.close()

    why = ""
    try:
        # in a thread of its own, since a notebook already runs an event loop in this one
        with ThreadPoolExecutor(1) as pool:
            kind = pool.submit(asyncio.run, asyncio.wait_for(ask(), CONNECT_SECONDS)).result()
        if kind != "Scheduler":
            why = f"that is a {kind}"
    except (OSError, ValueError) as reason:  # no answer in time is an OSError too
        why = " ".join(str(reason).split()) or f"no answer in {CONNECT_SECONDS} s"
    except Exception:  # whatever comes of reading the answer of another program
        why = "another program answers there"
    if why:
        raise InputError(
            f"no Dask scheduler at {address} ({why}); start one and give its address, such as "
            f"tcp://10.0.0.1:8786, or use --cluster {LOCAL}"
        )


def finished(
    client: Any, cells: Sequence[Cell], work: Callable[..., Arrays], threads: int, begun: Counter[str]
) -> Iterator[tuple[Cell, Arrays]]:
    """Submit the cells, each a task of its own, and yield them with their arrays as they finish.

    Args:
        client: a connected ``distributed.Client``.
        cells: what to compute.
        work: a function that the workers can import.
        threads: threads of torch inside a cell.
        begun: counts for each key how often a worker began it.

    Raises:
        CellError: a cell raised, or its workers died once more than they may.
        InputError: the scheduler is gone.
    """
    distributed = extra("distributed", "cluster")
    run = f"attnlim-{uuid.uuid4().hex}"  # names the tasks of this run alone, for whoever else uses the scheduler
    client.subscribe_topic(run, lambda event: begun.update([event[1]]))
    versions = _versions()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")  # tokens from a file travel with their cell
        futures = {
            client.submit(_on_worker, work, cell.key, dict(cell.arguments), threads, run, versions, key=(run, i)): cell
            for i, cell in enumerate(cells)
        }
    done = distributed.as_completed(list(futures), loop=client.loop, with_results=True, raise_errors=False)
    for future, found in done:
        cell = futures.pop(future)
        if future.status == "finished":
            future.release()  # else the cluster would compute it again when the worker that holds it dies
            yield cell, found
            continue
        if future.status != "error":
            raise InputError("the Dask scheduler is gone; what was finished is kept, give the same command again")
        reason = found[1]
        if isinstance(reason, distributed.KilledWorker):
            raise CellError(
                f"cell {cell.key}: {reason.allowed_failures + 1} workers died while they computed it; "
                "see their logs, and whether they have memory enough"
            ) from reason
        raise failed(cell.key, reason) from reason


def _on_worker(
    work: Callable[..., Arrays], key: str, arguments: dict[str, Any], threads: int, run: str, versions: dict[str, str]
) -> Arrays:
    """A cell on the worker: tell that it is begun, then compute it."""
    import torch
    from distributed import get_worker

    get_worker().log_event(run, key)
    check_versions(versions, _versions())
    torch.set_num_threads(threads)  # not restored: a neighbour of the same process would lose its own
    return work(**arguments)


def check_versions(here: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Refuse a worker whose numbers may differ from those of this process.

    Raises:
        InputError: naming the first package whose version differs.
    """
    for package, version in here.items():
        if there[package] != version:
            raise InputError(
                f"a worker has {package} {there[package]}, this process {version}; install the same versions on both"
            )


def _versions() -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in _SAME_EVERYWHERE}


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's own log off the terminal: what matters of it is said in one line of ours."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
