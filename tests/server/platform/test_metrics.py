"""Metrics over HTTP on a complete Muster: of a job while it runs, of a run, compared, as a table, and for whom."""

from __future__ import annotations

import asyncio
import csv
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from muster.platform.database.database import sqlite_url
from muster.platform.runs.logs import LogSource
from muster.platform.runs.status import Masks
from muster.server.platform import metric_cache
from muster.workspaces.mounted_files import MountedFolder
from tests.platform.graphs.samples import graph, node
from tests.server.platform.served import Client
from tests.server.platform.test_jobs import pytorch, submit
from tests.server.platform.test_jobs import until as until_job
from tests.server.platform.whole import PATIENCE, Whole, ended, stored, whole_muster
from tests.workspaces.event_records import FILE_VERSION, event, field, record, scalar_record

JOB = "jobs/user-ann/pytorchjob/digits"
FIRST = FILE_VERSION + scalar_record("train/loss", 1, 100.0, 0.5) + scalar_record("train/loss", 2, 101.0, 0.25)
SECOND = scalar_record("train/loss", 3, 102.0, float("nan"))


@pytest.fixture
async def muster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Whole]:
    monkeypatch.setattr(metric_cache, "_SEARCH_SECONDS", 0.2)
    async with whole_muster(tmp_path / "home", sqlite_url(tmp_path / "platform.db")) as running:
        yield running


def write(data: bytes, path: str) -> str:
    return f"echo {b64encode(data).decode()} | base64 -d >> {path}"


async def until(client: Client, path: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found: dict[str, Any] = await client.get(path)
            if holds(found):
                return found
            await asyncio.sleep(0.1)


def curves(found: dict[str, Any]) -> dict[tuple[str, str], list[list[Any]]]:
    return {(s["source"], s["tag"]): [[step, value] for step, _, value in s["points"]] for s in found["series"]}


async def test_curves_of_a_job_and_of_a_run(muster: Whole) -> None:
    """One story, because a whole Muster takes seconds to start."""
    ann, bob = await muster.member("ann"), await muster.member("bob")
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await muster.cluster.create({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim,
        "metadata": {"name": "logs", "namespace": "user-ann"},
    })  # fmt: skip
    file = "/data/a/events.out.tfevents.1700000000.$(hostname).1.0"
    commands = [
        "[ $RANK = 0 ] || exit 0",
        "mkdir -p /data/a /data/other /tmp/logs",
        write(FIRST, file),
        write(FIRST, "/tmp/logs/my.tfevents"),
        write(FIRST, "/data/other/events.out.tfevents.1700000000.another-pod.1.0"),
        "ln -s /etc /data/etc; ln -s /etc/passwd /data/a/passwd.tfevents",
        "echo step 10 loss=0.75 $((3 * 4))=x",
        "until [ -e /data/go ]; do sleep 0.05; done",
        write(SECOND, file),
        "echo step 20 loss=0.5",
        "until [ -e /data/end ]; do sleep 0.05; done",
    ]
    main = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "logs"}}]
    await submit(ann, pytorch("digits", "\n".join(commands), main=main, volumes=volumes))

    # While it runs.
    first = await until(ann, f"{JOB}/metrics", lambda found: len(found["series"]) == 3)
    assert first["live"] and first["problems"] == []
    assert curves(first) == {
        ("digits-master-0:/data/a", "train/loss"): [[1, 0.5], [2, 0.25]],
        ("digits-master-0:/tmp/logs", "train/loss"): [[1, 0.5], [2, 0.25]],
        ("digits-master-0", "loss"): [[10, 0.75]],
    }, "neither files of other Pods nor what links point at"
    assert (await ann.get(f"{JOB}/metrics?since={first['cursor']}"))["series"] == []
    (volume,) = [each for each in (muster.home / "volumes").rglob("a") if each.is_dir()]
    (volume.parent / "go").touch()
    path = f"{JOB}/metrics?since={first['cursor']}"
    more = await until(ann, path, lambda found: len(found["series"]) == 2)
    assert curves(more)["digits-master-0:/data/a", "train/loss"][-1] == [3, "NaN"]
    assert curves(more)["digits-master-0", "loss"] == [[10, 0.75], [20, 0.5]]

    # A pattern of the user, and wrong ones.
    own = await ann.get(f"{JOB}/metrics?pattern=loss%3D(%3FP%3Cmine%3E%5Cd)")
    assert curves(own)["digits-master-0", "mine"] == [[0, 0.0], [1, 0.0]]
    assert "missing closing )" in str((await ann("GET", f"{JOB}/metrics?pattern=(")).refused(422))

    # A damaged file is shown up to the damage.
    with open(next((volume).glob("events*")), "ab") as damaged:
        damaged.write(b"\0" * 40)
    found = await ann.get(f"{JOB}/metrics")
    assert [problem["source"].partition(".")[0] for problem in found["problems"]] == ["digits-master-0:/data/a/events"]
    assert "is damaged" in found["problems"][0]["message"]

    # After its end: /tmp is gone, the claim and the log are not.
    (volume.parent / "end").touch()
    await until_job(ann, "user-ann/pytorchjob/digits", "succeeded")
    after = await until(ann, f"{JOB}/metrics", lambda found: len(found["series"]) == 2)
    assert not after["live"]

    # A run, compared with the job, and as a table.
    commands = [
        "mkdir /tmp/logs",
        write(FIRST, "/tmp/logs/my.tfevents"),
        "for i in 1 2 3; do echo epoch=$i lr: 1e-$i; done",
    ]
    output = {"name": "logs", "type": "file", "path": "/tmp/logs"}
    step = node("train", command="\n".join(commands), outputs=[output], metricsPattern=r"(\w+)[=:] ?(\S+)")
    await stored(ann, "curves", graph(step))
    run = await ann.post("runs", {"workflow": "curves"})
    assert (await ended(ann, run["id"]))["state"] == "succeeded"
    of_run = await ann.get(f"runs/{run['id']}/metrics")
    assert of_run == {**await ann.get(f"runs/{run['id']}/nodes/train/metrics"), "cursor": of_run["cursor"]}
    assert of_run["patterns"] == {f"node:{run['id']}/train": r"(\w+)[=:] ?(\S+)"}
    assert {tag: points for (_, tag), points in curves(of_run).items()} == {
        "epoch": [[0, 1.0], [1, 2.0], [2, 3.0]],
        "lr": [[0, 0.1], [1, 0.01], [2, 0.001]],
        "train/loss": [[1, 0.5], [2, 0.25]],
    }, "the output of the node has its event files after its end"
    compare = f"metrics?of=run:{run['id']}&of=job:user-ann/pytorchjob/digits"
    both = await ann.get(compare)
    assert {(s["subject"], s["name"]) for s in both["series"]} == {
        (f"node:{run['id']}/train", "train"),
        ("job:user-ann/pytorchjob/digits", "digits"),
    }
    table = await ann("GET", f"{compare}&format=csv")
    rows = list(csv.DictReader(str(table.ok()).splitlines()))
    assert [row["value"] for row in rows if row["tag"] == "lr"] == ["0.1", "0.01", "0.001"]
    assert table.headers["Content-Disposition"] == 'attachment; filename="compare-metrics.csv"'

    # For whom: as logs.
    of_runs = (f"runs/{run['id']}/metrics", f"runs/{run['id']}/nodes/train/metrics")
    for path, status in ((f"{JOB}/metrics", 404), *((path, 403) for path in of_runs)):
        (await bob("GET", path)).refused(status)
        (await Client(muster.url)("GET", path)).refused(401)
    strange = await bob.get(compare)
    assert strange["series"] == [] and len(strange["problems"]) == 2
    (await ann("GET", "metrics?of=what")).refused(422)
    (await ann("GET", "metrics?" + "&".join(f"of=run:{n}" for n in range(21)))).refused(422)


async def test_what_was_not_asked_for_longest_is_dropped_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a client fills the memory with new patterns for the same log."""
    monkeypatch.setattr(metric_cache, "MAX_SOURCES", 3)
    saved = tmp_path / "0-pod.log"
    saved.write_text("2026-11-17T18:00:00Z loss=1\n")
    log = metric_cache.MetricLog("pod", LogSource("default", "pod", kept=saved), "1")
    cache, cluster = metric_cache.MetricCache(), cast(Any, None)

    async def run(function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    for number in range(10):
        series, _ = await cache.read_log(run, cluster, log, f"loss=(?P<m{number}>.)", Masks())
        assert [(each.tag, each.points[0][2]) for each in series] == [(f"m{number}", 1.0)]
    assert len(cache._states) == 3


async def test_restarts_without_end_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_cache, "MAX_RESTARTS", 2)
    restart = b"".join(record(event(step, 1.0, more=field(7, b"\x08\x01"))) for step in range(5))
    (tmp_path / "events.out.tfevents.1").write_bytes(restart + scalar_record("loss", 1, 2.0, 0.5))
    folder = MountedFolder(str(tmp_path), "", "/logs", "pod", "pod", 0.0, is_private=True)
    cache = metric_cache.MetricCache()

    async def run(function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    series, _ = await cache.read_files(run, (await cache.find_files([folder])).files)
    assert [(each.tag, each.points) for each in series] == [("loss", [(1, 2.0, 0.5)])]
    (state,) = cache._states.values()
    assert [restart.step for restart in state.restarts] == [3, 4]
