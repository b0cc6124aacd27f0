"""Cells on a Dask cluster: real processes, really killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.stand_in import broken, cells, deadly, work
from tests.lab.test_sweeping import same

from attnlim.core.checks import InputError
from attnlim.lab import dask_tasks
from attnlim.lab.dask_tasks import check_cluster, check_versions, worker_count
from attnlim.lab.sweeping import CellError, sweep

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def quick_workers() -> Iterator[None]:
    """Worker processes that are forks of one with everything imported; those of drivers of their own start Python."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        # Dask sets what is imported at the first call, and not again
        context = distributed.utils.get_mp_context()
        context.set_forkserver_preload(["distributed", "torch", "tests.lab.stand_in"])
        yield


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler with two worker processes, as somebody else would have started it."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


def when_written(path: Path) -> str:
    while not (path.exists() and (written := path.read_text())):  # a writer empties it first
        time.sleep(0.001)
    return written


def test_same_bytes_as_in_this_process_and_only_missing_cells(address: str, tmp_path: Path) -> None:
    sweep(cells(3), work, tmp_path)
    told = []
    found = sweep(
        cells(8), work, tmp_path, cluster=address, progress=lambda cell, was_stored: told.append((cell.key, was_stored))
    )
    assert same(found, sweep(cells(8), work)) and found.retried == 0
    assert told[:3] == [(f"cell-{i}", True) for i in range(3)]
    assert sorted(told[3:]) == [(f"cell-{i}", False) for i in range(3, 8)]
    assert same(found, sweep(cells(8), work, tmp_path))  # from the files that the driver wrote


def test_a_failing_cell_is_named(address: str, tmp_path: Path) -> None:
    with pytest.raises(CellError, match=r"^cell cell-2: ZeroDivisionError: two is not allowed$"):
        sweep(cells(4), broken, tmp_path, cluster=address)
    assert not (tmp_path / "cell-2.npz").exists()
    assert same(
        sweep(cells(2), work, tmp_path, cluster=address), sweep(cells(2), work)
    )  # the cluster is as good as before


def test_a_worker_killed_in_flight_costs_only_time(tmp_path: Path) -> None:
    """SIGKILL to the process that computes a cell: the cell is begun again, and the count says so."""
    mark, kept = tmp_path / "mark", tmp_path / "cells"
    slow = [*cells(2), *cells(3, seconds=1.0, mark=str(mark))[2:]]

    def kill() -> None:
        process = int(when_written(mark))
        while len(list(kept.glob("cell*.npz"))) < 2:
            time.sleep(0.001)  # a result that died with the worker would be computed again too
        time.sleep(0.1)  # the word that the cell was begun is on its way
        os.kill(process, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = sweep(slow, work, kept, cluster="local", workers=2)
    killer.join()
    assert found.retried == 1
    assert same(found, sweep(cells(3), work))
    assert sorted(path.name for path in kept.iterdir()) == [f"cell-{i}.npz" for i in range(3)]


def test_a_cell_that_kills_every_worker_is_given_up_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_tasks, "RETRIES", 1)  # each death costs the start of another process
    with pytest.raises(CellError, match=r"^cell cell-1: 2 workers died while they computed it; see their logs"):
        sweep(cells(2), deadly, tmp_path, cluster="local", workers=1)


def test_a_worker_that_cannot_be_joined_does_not_hide_what_came_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask's own race: the cluster is closed while a worker process is about to be started again."""
    join, refused = distributed.process.AsyncProcess.join, []

    async def join_late(self: object, timeout: float | None = None) -> None:
        if not refused:
            refused.append(self)
            raise AssertionError("can only join a started process")
        await join(self, timeout)

    monkeypatch.setattr(distributed.process.AsyncProcess, "join", join_late)
    before = set(distributed.SpecCluster._instances)
    with pytest.raises(CellError, match=r"^cell cell-2: ZeroDivisionError: two is not allowed$"):
        sweep(cells(3), broken, tmp_path, cluster="local", workers=1)
    assert refused
    assert all(cluster.status.name == "closed" for cluster in set(distributed.SpecCluster._instances) - before)


def test_a_killed_driver_is_resumed_and_leaves_no_worker_behind(tmp_path: Path) -> None:
    code = """
from pathlib import Path
from attnlim.lab.sweeping import sweep
from tests.lab.stand_in import cells, work
if __name__ == "__main__":
    slow = cells(12, seconds=0.1, mark="worker")
    sweep(slow, work, Path("cells"), cluster="local", workers=1)
"""
    script = tmp_path / "driver.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    driver = subprocess.Popen([sys.executable, script], cwd=tmp_path, env=environment)
    kept = tmp_path / "cells"
    while len(list(kept.glob("cell*.npz"))) < 3:
        assert driver.poll() is None
        time.sleep(0.001)
    driver.kill()
    driver.wait()
    before = len(list(kept.glob("cell*.npz")))
    assert 3 <= before < 12
    worker = int(when_written(tmp_path / "worker"))
    while True:  # it notices that its parent is gone
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            break
        time.sleep(0.01)
    stored = []
    found = sweep(
        cells(12), work, kept, cluster="local", workers=1, progress=lambda cell, was_stored: stored.append(was_stored)
    )
    assert sum(stored) == before and same(found, sweep(cells(12), work))


def test_a_lost_scheduler_is_one_line_and_what_was_finished_is_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = """
import distributed, time
if __name__ == "__main__":
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    print(cluster.scheduler_address, flush=True)
    time.sleep(600)
"""
    script = tmp_path / "cluster.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as elsewhere:
        assert elsewhere.stdout is not None
        address = elsewhere.stdout.readline().strip()
        with pytest.raises(InputError, match="^the Dask scheduler is gone; what was finished is kept"):
            sweep(
                cells(50, seconds=0.1), work, tmp_path / "cells", cluster=address,
                progress=lambda cell, was_stored: elsewhere.kill(),
            )  # fmt: skip
    assert list((tmp_path / "cells").glob("cell*.npz"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("address", "why"),
    [("nowhere", "missing port number"), ("udp://there:1", "unknown address scheme")],
)
def test_no_address(address: str, why: str) -> None:
    with pytest.raises(InputError, match=f"^no Dask scheduler at {address} .*{why}.*; start one and give its address"):
        sweep(cells(1), work, cluster=address)


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_tasks, "CONNECT_SECONDS", 0.5)
    with pytest.raises(InputError, match=r"^no Dask scheduler at tcp://127.0.0.1:1 \("):
        sweep(cells(1), work, cluster="tcp://127.0.0.1:1")


def test_a_worker_is_not_a_scheduler(address: str) -> None:
    with distributed.Client(address) as client:
        worker = next(iter(client.scheduler_info()["workers"]))
    with pytest.raises(InputError, match=r"\(that is a Worker\)"):
        sweep(cells(1), work, cluster=worker)


def test_a_missing_extra_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'attnlim\[cluster\]'"):
        check_cluster("local", None)
    check_cluster(None, None)


def test_numbers_of_workers() -> None:
    assert worker_count(3, 8) == 3
    assert worker_count(None, 1) >= worker_count(None, 2) >= worker_count(None, 10**6) == 1
    with pytest.raises(InputError, match="--workers starts processes on this machine, got it without --cluster local"):
        check_cluster("tcp://10.0.0.1:8786", 2)
    with pytest.raises(InputError, match="--workers must be a whole number of at least 1, got 0"):
        check_cluster("local", 0)


def test_a_worker_of_another_version_is_refused() -> None:
    here = {"attnlim": "1", "torch": "2"}
    check_versions(here, dict(here))
    with pytest.raises(InputError, match="a worker has torch 3, this process 2; install the same versions on both"):
        check_versions(here, {"attnlim": "1", "torch": "3"})
