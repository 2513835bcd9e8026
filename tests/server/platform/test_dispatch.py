"""Jobs of the dispatcher over HTTP: who may see and change them, and what happens to them. The cluster is a fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.dispatch.errors import Unclear
from muster.dispatch.testing import FakeAdapter
from muster.platform.database.database import Database
from muster.platform.quotas import BUDGETS
from muster.server.cooker.listeners import SERVICE_URL
from muster.server.dispatch.progress import TOKEN_VARIABLE, URL_VARIABLE, ProgressToken
from tests.server.platform.served import Client, Reply, Served, serving
from tests.server.platform.whole import PATIENCE, events, eventually

JOB = {"name": "train", "image": "python:3.11", "command": ["python", "train.py"]}


@pytest.fixture
async def fake() -> FakeAdapter:
    return FakeAdapter("cluster")


@pytest.fixture
async def served(database: Database, tmp_path: Path, fake: FakeAdapter) -> AsyncIterator[Served]:
    """A platform whose dispatcher works, on a cluster in memory."""
    cloud = FakeAdapter("aihc", finds=False)
    async with serving(database, tmp_path / "home", adapters=[fake, cloud]) as running:
        working = asyncio.create_task(running.platform.dispatch.run())
        yield running
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def submit(client: Client, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = await client.post("dispatch/jobs", {**JOB, **more})
    return made


async def until(client: Client, job: str, *states: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found: dict[str, Any] = await client.get(f"dispatch/jobs/{job}")
            if found["state"] in states:
                return found
            await asyncio.sleep(0.02)


async def program_of(served: Served, fake: FakeAdapter, job: str) -> Client:
    """A client with what the program of a job has: the path '' is that of MUSTER_PROGRESS_URL."""
    await asyncio.to_thread(fake.wait_for, job)
    env = fake.specs[job].env
    url, token = env[URL_VARIABLE], env[TOKEN_VARIABLE]
    assert isinstance(token, ProgressToken)
    assert str(token) == "***"
    assert url == f"{SERVICE_URL}/api/v1/dispatch/jobs/{job}/progress"

    class Program(Client):
        async def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
            return await super().__call__(method, path or f"dispatch/jobs/{job}/progress", body, **more)

    return Program(served.url, token.reveal())


async def test_a_job_is_submitted_runs_and_is_described(served: Served, fake: FakeAdapter) -> None:
    ann = await served.user("ann")
    made = await submit(ann, env={"SEED": "7"}, resources={"gpu": 2, "memory": "4Gi"}, priority=5)
    assert (made["adapter"], made["owner_name"], made["kind"], made["may"]) == (
        "cluster", "ann", "container", ["cancel", "edit"],
    )  # fmt: skip
    await asyncio.to_thread(fake.wait_for, made["id"])
    spec = fake.specs[made["id"]]
    assert (spec.image, spec.command, spec.env["SEED"]) == ("python:3.11", ("python", "train.py"), "7")
    running = await until(ann, made["id"], "running")
    assert (running["attempt"], running["resources"]["gpu"], running["may"]) == (1, 2, ["cancel"])
    fake.finish(made["id"])
    done = await until(ann, made["id"], "succeeded")
    assert [event["state"] for event in done["events"]][::3] == ["waiting", "running"]
    assert done["may"] == ["restart", "delete"]
    folder = served.platform.settings.home / "dispatch" / made["id"]
    assert folder.exists()
    assert (await ann("DELETE", f"dispatch/jobs/{made['id']}")).status == 204
    assert not folder.exists()
    (await ann("GET", f"dispatch/jobs/{made['id']}")).refused(404)


async def test_a_job_is_cancelled_and_restarted(served: Served, fake: FakeAdapter) -> None:
    ann = await served.user("ann")
    made = await submit(ann)
    await until(ann, made["id"], "running")
    await ann.post(f"dispatch/jobs/{made['id']}/cancel")
    await until(ann, made["id"], "cancelled")
    await ann.post(f"dispatch/jobs/{made['id']}/cancel")  # again is harmless
    await ann.post(f"dispatch/jobs/{made['id']}/restart")
    again = await until(ann, made["id"], "running")
    assert again["attempt"] == 2
    problem = (await ann("POST", f"dispatch/jobs/{made['id']}/restart")).refused(409)
    assert problem["code"] == "dispatch.not-ended"
    (await ann("DELETE", f"dispatch/jobs/{made['id']}")).refused(409)


async def test_an_unclear_start_is_resolved(served: Served) -> None:
    ann = await served.user("ann")
    cloud = served.platform.dispatch._dispatcher.adapters["aihc"]
    assert isinstance(cloud, FakeAdapter)
    cloud.fail_next("start", Unclear("no answer came"), after=True)
    made = await submit(ann, adapter="aihc")

    async def is_unclear() -> bool:
        found = await ann.get(f"dispatch/jobs/{made['id']}")
        return found["is_unclear"] and "resolve" in found["may"]

    await eventually(is_unclear)
    adopt = {"how": "adopt", "external_id": "the job of another user"}
    problem = (await ann("POST", f"dispatch/jobs/{made['id']}/resolve", adopt)).refused(403)
    assert problem["code"] == "dispatch.adopt"
    await ann.post(f"dispatch/jobs/{made['id']}/resolve", {"how": "fail"})
    failed = await until(ann, made["id"], "failed")
    assert failed["fault"]["origin"] == "dispatch"
    problem = (await ann("POST", f"dispatch/jobs/{made['id']}/resolve", {"how": "again"})).refused(409)
    assert problem["code"] == "dispatch.clear"


async def test_a_job_of_another_user_is_not_there(served: Served) -> None:
    ann, bob = await served.user("ann"), await served.user("bob")
    made = await submit(ann)
    for method, path, body in (
        ("GET", "", None),
        ("GET", "/events", None),
        ("GET", "/log", None),
        ("GET", "/log/events", None),
        ("PATCH", "", {"priority": 3}),
        ("POST", "/cancel", None),
        ("POST", "/restart", None),
        ("POST", "/resolve", {"how": "fail"}),
        ("DELETE", "", None),
    ):
        (await bob(method, f"dispatch/jobs/{made['id']}{path}", body)).refused(404)
    assert (await ann.get(f"dispatch/jobs/{made['id']}"))["cancel_requested"] is None
    secret = (await ann.post("tokens", {"name": "reader", "scopes": ["read"]}))["secret"]
    reader = served.client(secret)
    assert (await reader.get("dispatch/jobs"))["total"] == 1
    (await reader("POST", "dispatch/jobs", JOB)).refused(403)
    (await reader("POST", f"dispatch/jobs/{made['id']}/cancel")).refused(403)


async def test_a_team_sees_its_jobs_and_its_leader_may_stop_them(served: Served) -> None:
    ann, bob, eve, lea = [await served.user(name) for name in ("ann", "bob", "eve", "lea")]
    await served.admin.post("teams", {"name": "vision"})
    for name, role in (("ann", "member"), ("bob", "member"), ("lea", "leader")):
        (await served.admin("PUT", f"teams/vision/members/{name}", {"role": role})).ok()
    made = await submit(ann, team="vision")
    assert made["team_name"] == "vision"
    assert (await bob.get(f"dispatch/jobs/{made['id']}"))["may"] == []
    (await bob("POST", f"dispatch/jobs/{made['id']}/cancel")).refused(403)
    (await eve("GET", f"dispatch/jobs/{made['id']}")).refused(404)
    listed = {name: (await client.get("dispatch/jobs"))["total"] for name, client in (("bob", bob), ("eve", eve))}
    assert listed == {"bob": 1, "eve": 0}
    (await lea("POST", f"dispatch/jobs/{made['id']}/cancel")).ok()
    problem = (await eve("POST", "dispatch/jobs", {**JOB, "team": "vision"})).refused(403)
    assert problem["status"] == 403


async def test_lists_are_filtered_and_paged(served: Served, fake: FakeAdapter) -> None:
    ann, bob = await served.user("ann"), await served.user("bob")
    for number in range(5):
        await submit(ann, name=f"train-{number}", adapter="aihc" if number == 4 else "cluster")
    await submit(bob, name="train-of-bob")
    first = await ann.get("dispatch/jobs?limit=2&sort=name")
    assert [job["name"] for job in first["items"]] == ["train-0", "train-1"]
    assert first["total"] == 5
    second = await ann.get(f"dispatch/jobs?limit=2&sort=name&cursor={first['next']}")
    assert [job["name"] for job in second["items"]] == ["train-2", "train-3"]
    for query, names in (
        ("adapter=aihc", ["train-4"]),
        ("q=train-3", ["train-3"]),
        ("owner=bob", []),
        ("state=succeeded", []),
        ("type=manifest", []),
    ):
        assert [job["name"] for job in (await ann.get(f"dispatch/jobs?{query}"))["items"]] == names, query
    assert {job["owner_name"] for job in (await served.admin.get("dispatch/jobs"))["items"]} == {"ann", "bob"}
    newest = (await ann.get("dispatch/jobs?limit=1"))["items"]
    assert [job["name"] for job in newest] == ["train-4"]


async def test_the_same_key_is_the_same_job_of_the_same_user(served: Served) -> None:
    ann, bob = await served.user("ann"), await served.user("bob")
    made = await submit(ann, key="order-7")
    assert (await submit(ann, key="order-7"))["id"] == made["id"]
    assert (await submit(bob, key="order-7"))["id"] != made["id"]
    assert (await ann.get(f"dispatch/jobs/{made['id']}"))["key"] == "order-7"


async def test_a_mistake_is_named(served: Served) -> None:
    ann = await served.user("ann")
    pod = "kind: Pod\napiVersion: v1\nmetadata: {name: x}"
    for body, field, code in (
        ({**JOB, "adapter": "mars"}, "adapter", "dispatch.adapter"),
        ({"name": "x"}, "image", "dispatch.what"),
        ({**JOB, "manifest": "kind: PyTorchJob"}, "image", "dispatch.what"),
        ({"name": "x", "manifest": pod, "adapter": "aihc"}, "adapter", "dispatch.manifest"),
        ({"name": "x", "manifest": pod}, "kind", "job.kind"),
        ({"name": "x", "manifest": f"{pod}\n---\n{pod}"}, "manifest", "dispatch.one"),
        ({**JOB, "resources": {"memory": "lots"}}, "resources.memory", None),
        ({**JOB, "resources": {"memory": "1e999"}}, "resources.memory", None),
        ({**JOB, "priority": 101}, "priority", "field.most"),
        ({**JOB, "name": "a\0b"}, "args", "cooker.text"),
        ({**JOB, "env": {"A": "\0"}}, "args", "cooker.text"),
        ({**JOB, "imagee": "x"}, "imagee", "field.unknown"),
    ):
        problem = (await ann("POST", "dispatch/jobs", body)).refused(422)
        assert [(each["field"], each["code"]) for each in problem["errors"]] == [(field, code)]


async def test_jobs_of_one_user_are_limited(served: Served) -> None:
    ann = await served.user("ann")
    await submit(ann)
    budgets = replace(served.platform.settings.budgets, user_dispatch_jobs=1)
    served.platform.database._writers.update_execution_options(**{BUDGETS: budgets})
    problem = (await ann("POST", "dispatch/jobs", JOB)).refused(409)
    assert "budgets.userDispatchJobs" in problem["detail"]


async def test_a_stream_follows_jobs_and_logs(served: Served, fake: FakeAdapter) -> None:
    ann = await served.user("ann")
    secret = (await ann.post("tokens", {"name": "script"}))["secret"]
    script = served.client(secret)
    made = await submit(ann)
    await until(ann, made["id"], "running")
    found = await asyncio.to_thread(fake.wait_for, made["id"])
    found.lines += ["epoch 1", "epoch 2"]

    async def states() -> list[str]:
        return [each["data"]["state"] async for each in events(script, f"dispatch/jobs/{made['id']}/events", most=2)]

    async def everyone() -> list[tuple[str, str]]:
        return [(e["event"], e["data"]["id"]) async for e in events(script, "dispatch/jobs/events", most=1)]

    async def all_follow() -> bool:
        return served.platform.dispatch._watchers == 2

    one, all_of_them = asyncio.create_task(states()), asyncio.create_task(everyone())
    await eventually(all_follow)
    fake.finish(made["id"])
    assert (await one)[0] == "running"
    assert await all_of_them == [("job", made["id"])]
    await until(ann, made["id"], "succeeded")
    assert await ann.get(f"dispatch/jobs/{made['id']}/log") == "epoch 1\nepoch 2\n"
    assert await ann.get(f"dispatch/jobs/{made['id']}/log?tail=1") == "epoch 2\n"
    lines = [each async for each in events(script, f"dispatch/jobs/{made['id']}/log/events", "1.1")]
    assert [(each["event"], each["data"].get("text")) for each in lines] == [("line", "epoch 2"), ("end", None)]


async def test_a_program_reports_its_own_progress(served: Served, fake: FakeAdapter) -> None:
    ann = await served.user("ann")
    jobs = [(await submit(ann))["id"] for _ in range(2)]
    address, *others = [await program_of(served, fake, job) for job in jobs]
    report = {"progress": 0.5, "message": "epoch 5 of 10", "metrics": {"loss": 0.25}}
    assert (await address("POST", "", report)).status == 204
    assert (await address("POST", "", {"metrics": {"accuracy": 0.75}})).status == 204
    told = await ann.get(f"dispatch/jobs/{jobs[0]}")
    assert (told["progress"], told["message"]) == (0.5, "epoch 5 of 10")
    assert told["metrics"] == {"loss": 0.25, "accuracy": 0.75}
    for stranger in (*others, served.client(), served.admin):
        (await stranger("POST", f"dispatch/jobs/{jobs[0]}/progress", report)).refused(401)
    (await address("GET", f"dispatch/jobs/{jobs[0]}")).refused(401)
    fake.finish(jobs[0])
    await until(ann, jobs[0], "succeeded")
    (await address("POST", "", report)).refused(409)
    await ann.post(f"dispatch/jobs/{jobs[0]}/restart")
    await until(ann, jobs[0], "running")
    (await address("POST", "", report)).refused(401)  # it was the token of the first attempt


async def test_adapters_are_listed(served: Served) -> None:
    ann = await served.user("ann")
    assert await ann.get("dispatch/adapters") == [
        {"name": "cluster", "is_default": True, "takes_manifests": True},
        {"name": "aihc", "is_default": False, "takes_manifests": False},
    ]


async def test_a_job_that_comes_during_a_look_at_the_tables_is_not_missed(database: Database, tmp_path: Path) -> None:
    looks: list[str] = []
    async with serving(database, tmp_path / "home", adapters=[FakeAdapter()]) as running:
        dispatch = running.platform.dispatch

        async def is_needed() -> bool:
            looks.append("look")
            if len(looks) == 1:
                dispatch.wake()
                return False
            return True

        async with asyncio.timeout(PATIENCE):
            await dispatch._until(is_needed, 3600)
    assert len(looks) == 2
