"""What it costs to submit and dispatch jobs that do nothing, against Celery on Redis and Procrastinate on PostgreSQL.

    python -m benchmarks.dispatch [--jobs 1000] [--singles 50] [--pods 40] [--waiting 10000]

Every system runs one worker or dispatcher process in a process of its own, and one submitter. Measured are the latency
of a job that is submitted to an idle worker, until its result is known, and, for many jobs at once, the CPU time of
everything (submitter, worker, broker or database) per job. Muster runs the function in its dispatcher here, as the
peers do in their worker; the line "pods" shows what a sandboxed process per job costs in addition. The last line is
one round of the dispatcher over many waiting jobs on SQLite.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from benchmarks.meter import Meter, enter_group
from benchmarks.noop_job import noop
from benchmarks.peers import ROOT, python_of
from sqlalchemy import Connection, insert

from muster.dispatch import Capacity, Dispatcher, DispatcherAdapter, LocalAdapter, Resources, store
from muster.dispatch.admission import admit
from muster.dispatch.codec import to_row
from muster.dispatch.tables import jobs as jobs_table
from muster.dispatch.testing import FakeAdapter
from tests.platform.databases import PostgresServer, postgres_server

CELERY = ("celery[redis]>=5.4,<6",)
PROCRASTINATE = ("procrastinate>=3,<4", "psycopg[binary]>=3.2,<4")
PROGRAMS = Path(__file__).parent / "programs"
LONGEST_ROUND = 1.0


class Figures(NamedTuple):
    latencies: list[float]
    submit: float
    submit_cpu: float
    total: float


def make_dispatcher(url: str, folder: Path, adapter: DispatcherAdapter) -> Dispatcher:
    dispatcher = Dispatcher(url, adapters=[adapter], folder=folder)
    dispatcher.function("noop", resources=Resources(cpu=0.01, memory="10Mi"))(noop)
    return dispatcher


def measure(dispatcher: Dispatcher, jobs: int, singles: int) -> Figures:
    """The same as the programs of the peers do."""
    for _ in range(5):
        dispatcher.submit("noop").result(120)
    latencies = []
    for _ in range(singles):
        began = time.perf_counter()
        dispatcher.submit("noop").result(60)
        latencies.append(time.perf_counter() - began)
    cpu, began = time.process_time(), time.perf_counter()
    handles = [dispatcher.submit("noop") for _ in range(jobs)]
    submitted, submit_cpu = time.perf_counter() - began, time.process_time() - cpu
    handles[-1].result(600)
    while dispatcher.list(state=("waiting", "starting", "preparing", "running", "submitting"), limit=1).items:
        time.sleep(0.02)
    return Figures(latencies, submitted, submit_cpu, time.perf_counter() - began)


@contextmanager
def running(command: list[str], **environment: str) -> Iterator[None]:
    """Runs a server or worker, which ends with the block."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROGRAMS), str(ROOT)]), **environment}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=ROOT, start_new_session=True)
        try:
            time.sleep(0.5)
            if process.poll() is not None:
                log.seek(0)
                raise SystemExit(f"{command[0]} ended: {log.read().decode(errors='replace')}")
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def report(name: str, figures: Figures, cpu: float, jobs: int) -> float:
    latency = statistics.median(figures.latencies) * 1000
    per_job = cpu / jobs * 1000
    submit, submit_cpu = figures.submit / jobs * 1000, figures.submit_cpu / jobs * 1000
    print(
        f"{name:28} latency {latency:7.1f} ms   submit {submit:6.2f} ms (CPU {submit_cpu:5.2f})   "
        f"{jobs / figures.total:6.0f} jobs/s   CPU {per_job:6.2f} ms/job"
    )
    return per_job


def bench_muster(name: str, url: str, folder: Path, jobs: int, singles: int, kind: str = "fake") -> float:
    adapter = FakeAdapter() if kind == "fake" else LocalAdapter(home=folder / "home")
    dispatcher = make_dispatcher(url, folder / "jobs", adapter)
    dispatcher.database.ensure()
    with running([sys.executable, "-m", "benchmarks.dispatch", "--serve", kind, url, str(folder)]):
        dispatcher.submit("noop").result(120)
        meter = Meter()
        figures = measure(dispatcher, jobs, singles)
        cost = meter.stop()
    dispatcher.close()
    return report(name, figures, cost.cpu, jobs + singles)


def bench_peer(name: str, python: str, program: str, worker: list[str], jobs: int, singles: int, **env: str) -> float:
    with running(worker, **env):
        client = [python, str(PROGRAMS / program), str(jobs), str(singles)]
        subprocess.run([*client[:2], "1", "1"], env={**os.environ, **env}, check=True, stdout=subprocess.DEVNULL)
        meter = Meter()
        done = subprocess.run(client, env={**os.environ, **env}, check=True, capture_output=True, text=True)
        cost = meter.stop()
    figures = Figures(**json.loads(done.stdout.splitlines()[-1]))
    return report(name, figures, cost.cpu, jobs + singles + 20)


def bench_celery(jobs: int, singles: int) -> float:
    if shutil.which("redis-server") is None:
        subprocess.run([ROOT / "scripts" / "apt-install", "redis-server"], check=True)
    python = python_of("celery", CELERY)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"redis://127.0.0.1:{port}/0"
    with running(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]):
        worker = [python, "-m", "celery", "-A", "celery_app", "worker", "-c", "1", "-l", "warning"]
        return bench_peer("Celery, Redis", python, "celery_app.py", worker, jobs, singles, REDIS_URL=url)


def bench_procrastinate(server: PostgresServer, jobs: int, singles: int) -> float:
    python = python_of("procrastinate", PROCRASTINATE)
    url = server.url(server.new_database())
    env = {**os.environ, "DATABASE_URL": url, "PYTHONPATH": str(PROGRAMS)}
    command = [python, "-m", "procrastinate", "--app", "procrastinate_app.app"]
    subprocess.run([*command, "schema", "--apply"], env=env, check=True, capture_output=True)
    worker = [*command, "worker"]
    name, program = "Procrastinate, PostgreSQL", "procrastinate_app.py"
    return bench_peer(name, python, program, worker, jobs, singles, DATABASE_URL=url)


def bench_round(folder: Path, waiting: int) -> float:
    """One round over many jobs that all wait for the same full cluster: the first writes every reason."""
    dispatcher = make_dispatcher(f"sqlite:///{folder}/round.db", folder, FakeAdapter())
    dispatcher.database.ensure()
    job = dispatcher.job(dispatcher.submit("noop").id)
    now = datetime.now(UTC)

    def fill(connection: Connection) -> None:
        row = to_row(job)
        rows = [row | {"id": f"w{n}", "created": now + timedelta(microseconds=n)} for n in range(waiting - 1)]
        connection.execute(insert(jobs_table), rows)

    dispatcher.database.write(fill)
    full = {"fake": Capacity({"cpu": 4.0}, {"cpu": 0.0})}
    times, cpu_times = [], []
    for _ in range(3):
        began, cpu = time.perf_counter(), time.process_time()

        def one_round(connection: Connection) -> None:
            queue = store.read_queue(connection, ["fake"], now)
            assert len(queue.waiting) == waiting
            admission = admit(queue.waiting, now=now, capacity=full, active=queue.active, held=queue.held)
            store.apply_admission(connection, queue, admission, "bench", now, now)

        dispatcher.database.write(one_round)
        times.append(time.perf_counter() - began)
        cpu_times.append(time.process_time() - cpu)
    dispatcher.close()
    print(
        f"one round over {waiting} waiting jobs on SQLite: first {times[0]:.2f} s (CPU {cpu_times[0]:.2f}), "
        f"later {min(times):.2f} s (CPU {min(cpu_times):.2f})"
    )
    return cpu_times[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--singles", type=int, default=50)
    parser.add_argument("--pods", type=int, default=40)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--serve", nargs=3, metavar=("KIND", "URL", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        kind, url, folder = given.serve
        adapter = FakeAdapter() if kind == "fake" else LocalAdapter(home=f"{folder}/home")
        make_dispatcher(url, Path(folder) / "jobs", adapter).run()
        return
    enter_group()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name, postgres_server() as server:
        folder = Path(name)
        longest = bench_round(folder, given.waiting)
        jobs, singles = given.jobs, given.singles
        bench_celery(jobs, singles)
        bench_procrastinate(server, jobs, singles)
        bench_muster("Muster, SQLite", f"sqlite:///{folder}/shop.db", folder, jobs, singles)
        bench_muster("Muster, PostgreSQL", server.url(server.new_database()), folder, jobs, singles)
        if given.pods:
            url = f"sqlite:///{folder}/pods.db"
            bench_muster("Muster, SQLite, pods", url, folder, given.pods, 5, kind="local")
            env = {**os.environ, "MUSTER_HOME": str(folder / "home")}
            subprocess.run([sys.executable, "-m", "muster", "down"], env=env, check=True, stdout=subprocess.DEVNULL)
    if longest > LONGEST_ROUND:
        raise SystemExit(f"one round took {longest:.2f} s of CPU; it should take less than {LONGEST_ROUND:g} s")


if __name__ == "__main__":
    main()
