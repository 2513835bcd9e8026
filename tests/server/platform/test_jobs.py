"""Training jobs over HTTP on a complete Muster: they really run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import SECRET
from muster.kube.manifests import dump
from muster.kube.objects import Object
from muster.platform.database.database import sqlite_url
from muster.platform.jobs.jobs import job_kind_named
from muster.platform.pod_policy import SHARED
from muster.training.kinds.pytorch import PyTorch
from tests.platform.graphs.samples import graph
from tests.server.platform.served import Client
from tests.server.platform.whole import PATIENCE, Whole, ended, events, eventually, stored, whole_muster

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
async def muster(tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole_muster(tmp_path / "home", sqlite_url(tmp_path / "platform.db")) as running:
        yield running


def pytorch(name: str, command: str = "echo $RANK of $WORLD_SIZE", **more: Any) -> Object:
    return job("PyTorchJob", name, "pytorchReplicaSpecs", {"Master": 1, "Worker": 1}, "pytorch", command, **more)


def job(kind: str, name: str, specs: str, roles: dict[str, int], container: str, command: str, **pod: Any) -> Object:
    main = {"name": container, "image": "python:3.11", "command": ["sh", "-c", command]} | pod.pop("main", {})
    policy = pod.pop("policy", {})
    template = {"spec": {"containers": [main], **pod}}
    replicas = {
        role: {"replicas": count, "restartPolicy": "Never", "template": template} for role, count in roles.items()
    }
    spec: Object = {specs: replicas, "runPolicy": policy}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def submit(client: Client, *objects: Object, team: str = "") -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = await client.post("jobs", {"manifest": text(*objects), "team": team})
    return made


def text(*objects: Object) -> str:
    return "---\n".join(map(dump, objects))


async def until(client: Client, path: str, *states: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found: dict[str, Any] = await client.get(f"jobs/{path}")
            if found["state"] in states:
                return found
            await asyncio.sleep(0.05)


async def test_a_job_is_submitted_runs_and_is_described(muster: Whole) -> None:
    ann = await muster.member("ann")
    (made,) = await submit(ann, pytorch("digits"))
    assert (made["kind"], made["word"], made["owner_name"], made["run_id"]) == ("PyTorchJob", "pytorchjob", "ann", None)
    assert made["may"] == ["suspend", "delete"]
    done = await until(ann, "user-ann/pytorchjob/digits", "succeeded", "failed")
    assert (done["state"], done["replicas"], done["reasons"]) == ("succeeded", 2, [])
    members = {m["pod"]: (r["name"], m["index"], m["containers"]) for r in done["roles"] for m in r["members"]}
    assert members == {"digits-master-0": ("Master", 0, ["pytorch"]), "digits-worker-0": ("Worker", 0, ["pytorch"])}
    master = done["roles"][0]["members"][0]
    assert (master["state"], master["exit_code"], master["restarts"]) == ("succeeded", 0, 0)
    types = [condition["type"] for condition in done["conditions"]]
    assert (types[0], types[-1]) == ("Created", "Succeeded")
    assert done["may"] == ["delete"]
    log = await ann.get("jobs/user-ann/pytorchjob/digits/pods/digits-master-0/log")
    assert log == "0 of 2\n"
    told = [e async for e in events(ann, "jobs/user-ann/pytorchjob/digits/pods/digits-worker-0/log/events")]
    assert [(e["event"], e["data"].get("text")) for e in told] == [("line", "1 of 2"), ("end", None)]
    happened = await ann.get("jobs/user-ann/pytorchjob/digits/happenings")
    assert {"Scheduled", "JobSucceeded"} & {event["reason"] for event in happened}
    yaml = await ann.get("jobs/user-ann/pytorchjob/digits/yaml")
    assert "kind: PyTorchJob" in yaml and "managedFields" not in yaml and "muster.dev/owner" in yaml
    (listed,) = (await ann.get("jobs"))["items"]
    assert (listed["name"], listed["state"], listed["owner_name"]) == ("digits", "succeeded", "ann")
    (await ann("DELETE", "jobs/user-ann/pytorchjob/digits")).ok()
    (await ann("GET", "jobs/user-ann/pytorchjob/digits")).refused(404)
    (await ann("DELETE", "jobs/user-ann/pytorchjob/digits")).refused(404)
    written = await muster.admin.get("audit?kind=job")
    assert [(e["action"], e["subject_name"], e["actor_name"]) for e in written["items"]] == [
        ("delete", "pytorchjob/digits", "ann"),
        ("create", "pytorchjob/digits", "ann"),
    ]


async def test_a_log_is_followed_while_it_is_written(muster: Whole) -> None:
    ann = await muster.member("ann")
    await submit(ann, pytorch("slow", "for i in 1 2 3; do echo line $i; sleep 0.3; done"))
    path = "jobs/user-ann/pytorchjob/slow/pods/slow-master-0/log/events"
    first = [e async for e in events(ann, path, most=2)]
    assert [e["data"]["text"] for e in first] == ["line 1", "line 2"]
    rest = [e async for e in events(ann, path, last=first[-1]["id"])]
    assert [(e["event"], e["data"].get("text")) for e in rest] == [("line", "line 3"), ("end", None)]


MEET = """
import os, socket, time
print("all aboard", flush=True)
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    socket.create_server(("", address[1])).accept()
while os.environ["RANK"] != "0":
    try:
        socket.create_connection(address)
        break
    except OSError:
        time.sleep(0.05)
"""
"""The job succeeds when its master ends. If that did not wait for the worker, the worker could be deleted before it
prints."""


async def test_a_finished_gang_shows_that_it_was_one_and_the_logs_of_its_deleted_pods(muster: Whole) -> None:
    ann = await muster.member("ann")
    policy = {"schedulingPolicy": {"minAvailable": 2}, "cleanPodPolicy": "All"}
    await submit(ann, pytorch("crew", policy=policy, main={"command": ["python3", "-c", MEET]}))
    await until(ann, "user-ann/pytorchjob/crew", "succeeded")

    async def cleaned() -> bool:
        found = await ann.get("jobs/user-ann/pytorchjob/crew")
        return all(m["state"] == "gone" for role in found["roles"] for m in role["members"]) and not found["group"]

    await eventually(cleaned)
    assert (await ann.get("jobs/user-ann/pytorchjob/crew"))["gang"] is True
    path = "jobs/user-ann/pytorchjob/crew/pods/crew-worker-0/log"
    assert await ann.get(path) == "all aboard\n"
    lines = [e async for e in events(ann, f"{path}/events")]
    assert [(e["event"], e["data"].get("text")) for e in lines] == [("line", "all aboard"), ("end", None)]

    # A job of the same name does not inherit the logs.
    (await ann("DELETE", "jobs/user-ann/pytorchjob/crew")).ok()
    await submit(ann, pytorch("crew", main={"resources": {"limits": {"nvidia.com/gpu": 4096}}}))
    again = await ann.get("jobs/user-ann/pytorchjob/crew")
    assert again["gang"] is False
    assert (await ann("GET", path)).ok() in ("", None)


async def test_a_failed_job_gives_its_reason_first(muster: Whole) -> None:
    ann = await muster.member("ann")
    await submit(ann, pytorch("broken", "echo cannot find the data >&2; exit 3"))
    done = await until(ann, "user-ann/pytorchjob/broken", "failed")
    assert done["reasons"][0]["code"] == "failed"
    assert any(
        r["code"] == "pod" and 'container "pytorch" exited with code 3' in r["detail"] for r in done["reasons"]
    ), done["reasons"]
    assert 3 in [member["exit_code"] for role in done["roles"] for member in role["members"]]


async def test_a_waiting_gang_says_what_it_waits_for(muster: Whole) -> None:
    ann = await muster.member("ann")
    wants = {"resources": {"limits": {"nvidia.com/gpu": 4096}}}
    await submit(ann, pytorch("huge", main=wants, policy={"schedulingPolicy": {"minAvailable": 2}}))

    async def told() -> bool:
        found = await ann.get("jobs/user-ann/pytorchjob/huge")
        return bool(found["group"] and found["group"]["message"])

    await eventually(told)
    found = await ann.get("jobs/user-ann/pytorchjob/huge")
    assert (found["state"], found["group"]["phase"], found["group"]["members"]) == ("waiting", "Pending", 2)
    reason = found["reasons"][0]
    assert reason["code"] == "gang waits" and "nvidia.com/gpu" in reason["detail"]
    assert reason["text"] == f"the gang waits for room: {reason['detail']}"
    assert [m["state"] for role in found["roles"] for m in role["members"]] == ["waiting", "waiting"]


async def test_a_job_is_suspended_and_resumed(muster: Whole) -> None:
    ann = await muster.member("ann")
    await submit(ann, pytorch("long", "sleep 600"))
    running = await until(ann, "user-ann/pytorchjob/long", "running")
    assert running["may"] == ["suspend", "delete"]
    await ann.post("jobs/user-ann/pytorchjob/long/suspend")
    suspended = await until(ann, "user-ann/pytorchjob/long", "suspended")
    assert suspended["may"] == ["resume", "delete"]
    assert [reason["code"] for reason in suspended["reasons"]] == ["suspended"]
    await ann.post("jobs/user-ann/pytorchjob/long/resume")
    await until(ann, "user-ann/pytorchjob/long", "running")
    template = pytorch("x")["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    paddle = {
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": "wide"},
        "spec": {"worker": {"replicas": 1, "template": template}},
    }
    await submit(ann, paddle)
    place = "user-ann/paddlejob.batch.paddlepaddle.org/wide"
    await until(ann, place, "succeeded")
    assert (await ann("POST", f"jobs/{place}/suspend")).refused(409)
    written = await muster.admin.get("audit?kind=job&sort=at")
    assert [entry["action"] for entry in written["items"]] == ["create", "suspend", "resume", "create"]


async def test_changes_are_streamed(muster: Whole) -> None:
    ann, bob = await muster.member("ann"), await muster.member("bob")
    listening = asyncio.create_task(_first(ann, "jobs/events", "gone"))
    other = asyncio.create_task(_first(bob, "jobs/events", "gone"))
    await asyncio.sleep(0.3)
    await submit(ann, pytorch("short", "sleep 0.2"))
    watching = [e async for e in _until_gone(ann, "user-ann/pytorchjob/short", after="succeeded")]
    assert [e["event"] for e in watching][-1] == "gone"
    states = list(dict.fromkeys(e["data"]["state"] for e in watching if e["data"]))
    assert states[-1] == "succeeded"
    told = await asyncio.wait_for(listening, PATIENCE)
    assert {event["data"]["name"] for event in told} == {"short"}
    assert not other.done()
    other.cancel()


async def test_errors_in_a_manifest_have_lines(muster: Whole) -> None:
    ann = await muster.member("ann")

    async def problems(manifest: str) -> list[tuple[int, str, str]]:
        answer = await ann.post("jobs/validate", {"manifest": manifest})
        return [(p["line"], p["path"], p["code"]) for p in answer["problems"]]

    assert await problems("") == [(0, "", "job.empty")]
    assert await problems("a: [1\nb: 2\n") == [(2, "", "job.text")]
    assert await problems("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n") == [(2, "kind", "job.kind")]
    good = text(pytorch("fine"))
    answer = await ann.post("jobs/validate", {"manifest": good})
    assert answer["problems"] == []
    assert [(j["kind"], j["name"], j["namespace"]) for j in answer["jobs"]] == [("PyTorchJob", "fine", "user-ann")]
    assert (await ann.get("jobs"))["total"] == 0

    bad = good.replace("Worker:", "Wroker:").replace("replicas: 1", "replicas: one", 1)
    lines = bad.split("\n")
    told = (await ann.post("jobs/validate", {"manifest": bad}))["problems"]
    assert [(p["path"], lines[p["line"] - 1].strip()) for p in told] == [
        ("spec.pytorchReplicaSpecs[Master].replicas", "replicas: one")
    ]
    bad = good.replace("Worker:", "Wroker:")
    (problem,) = (await ann.post("jobs/validate", {"manifest": bad}))["problems"]
    assert bad.split("\n")[problem["line"] - 1].strip() == "Wroker:"
    assert "is not a role of PyTorchJob" in problem["message"]
    twice = await problems(text(pytorch("same"), pytorch("same")))
    assert [code for _, _, code in twice] == ["job.twice"]
    await submit(ann, pytorch("taken"))
    (exists,) = await problems(text(pytorch("taken")))
    assert exists[1:] == ("metadata.name", "job.cluster")
    refused = (await ann("POST", "jobs", {"manifest": bad})).refused(422)
    assert refused["errors"][0]["field"] == "spec.pytorchReplicaSpecs.Wroker"
    assert f"line {problem['line']}:" in refused["errors"][0]["message"]


async def test_several_jobs_are_created_or_none(muster: Whole) -> None:
    ann = await muster.member("ann")
    tf = job("TFJob", "two", "tfReplicaSpecs", {"Worker": 1}, "tensorflow", "true")
    wrong = job("TFJob", "two", "tfReplicaSpecs", {"Worker": 1}, "other", "true")
    (await ann("POST", "jobs", {"manifest": text(pytorch("one"), wrong)})).refused(422)
    assert (await ann.get("jobs"))["total"] == 0
    assert [each["name"] for each in await submit(ann, pytorch("one"), tf)] == ["one", "two"]
    await until(ann, "user-ann/tfjob/two", "succeeded")


async def test_lists_are_filtered_sorted_and_paged(muster: Whole) -> None:
    ann, bob = await muster.member("ann"), await muster.member("bob")
    for name in ("alpha", "beta", "gamma"):
        await submit(ann, pytorch(name, "true"))
    await submit(bob, job("TFJob", "delta", "tfReplicaSpecs", {"Worker": 1}, "tensorflow", "exit 1"))
    await until(bob, "user-bob/tfjob/delta", "failed")
    admin = muster.admin

    async def names(query: str) -> list[str]:
        return [each["name"] for each in (await admin.get(f"jobs?{query}"))["items"]]

    await eventually(lambda: _has(admin, "jobs?state=succeeded", 3))
    assert await names("sort=name") == ["alpha", "beta", "delta", "gamma"]
    assert await names("") == ["delta", "gamma", "beta", "alpha"]
    assert await names("kind=tfjob") == ["delta"]
    assert await names("kind=tfjob&kind=pytorchjob&state=failed") == ["delta"]
    assert await names("owner=bob") == ["delta"]
    assert await names("owner=nobody") == []
    assert await names("q=PyTorch BET") == ["beta"]
    assert await names("until=2020-01-01T00:00:00Z") == []
    assert sorted(await names("since=2020-01-01T00:00:00Z")) == ["alpha", "beta", "delta", "gamma"]
    first = await admin.get("jobs?sort=-name&limit=3")
    assert ([each["name"] for each in first["items"]], first["total"]) == (["gamma", "delta", "beta"], 4)
    assert await names(f"sort=-name&limit=3&cursor={first['next']}") == ["alpha"]
    assert (await admin("GET", "jobs?kind=podjob")).refused(422)
    assert (await admin("GET", "jobs?sort=colour")).refused(422)


async def test_permissions_of_other_users(muster: Whole) -> None:
    admin = muster.admin
    await admin.post("teams", {"name": "vision"})
    ann, tom = await muster.member("ann", "vision"), await muster.member("tom", "vision")
    lea, eve = await muster.member("lea", "vision", "leader"), await muster.member("eve")
    await submit(ann, pytorch("shared", "sleep 600"), team="vision")
    await submit(ann, pytorch("own", "sleep 600"))
    await muster.cluster.create(
        {**pytorch("found", "sleep 600"), "metadata": {"name": "found", "namespace": "default"}}
    )
    await eventually(lambda: _has(admin, "jobs", 3))

    async def seen(client: Client) -> dict[str, list[str]]:
        await until(client, "team-vision/pytorchjob/shared", "running") if client is not eve else None
        return {each["name"]: each["may"] for each in (await client.get("jobs"))["items"]}

    assert await seen(ann) == {"shared": ["suspend", "delete"], "own": ["suspend", "delete"]}
    assert await seen(tom) == {"shared": []}
    assert await seen(lea) == {"shared": ["suspend"]}
    assert await seen(eve) == {}
    assert set(await seen(admin)) == {"shared", "own", "found"}
    for path in ("", "/yaml", "/happenings", "/events", "/pods/own-master-0/log", "/pods/own-master-0/log/events"):
        (await eve("GET", f"jobs/user-ann/pytorchjob/own{path}")).refused(404)
        (await tom("GET", f"jobs/default/pytorchjob/found{path}")).refused(404)
    (await eve("DELETE", "jobs/user-ann/pytorchjob/own")).refused(404)
    (await tom("DELETE", "jobs/team-vision/pytorchjob/shared")).refused(403)
    (await lea("DELETE", "jobs/team-vision/pytorchjob/shared")).refused(403)
    await lea.post("jobs/team-vision/pytorchjob/shared/suspend")
    refused = (await eve("POST", "jobs", {"manifest": text(pytorch("x")), "team": "vision"})).refused(403)
    assert "vision" in refused["detail"]
    # Nobody reads a Pod that is not the job's, whatever it is called.
    (await ann("GET", "jobs/team-vision/pytorchjob/shared/pods/own-master-0/log")).refused(404)
    (await ann("GET", "jobs/team-vision/pytorchjob/shared/pods/found-master-0/log")).refused(404)


async def test_members_cannot_reach_the_machine_or_the_secrets_of_others(muster: Whole) -> None:
    ann, admin = await muster.member("ann"), muster.admin
    await muster.cluster.create(_secret("theirs", {}))
    await muster.cluster.create(_secret("ours", {SHARED: "everybody"}))
    await admin.post("storage", {"name": "data", "path": "/tmp"})

    def reading(secret: str) -> Object:
        variable = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": secret, "key": "key"}}}
        return pytorch(f"reads-{secret}", "echo the key is $KEY", main={"env": [variable]})

    def mounting(path: str) -> Object:
        return pytorch("mounts", "true", volumes=[{"name": "v", "hostPath": {"path": path}}])

    async def codes(obj: Object) -> set[str]:
        answer = await ann.post("jobs/validate", {"manifest": text(obj)})
        return {problem["code"] for problem in answer["problems"]}

    labelled = {**pytorch("x"), "metadata": {"name": "x", "labels": {"muster.dev/owner": "somebody"}}}
    elsewhere = {**pytorch("x"), "metadata": {"name": "x", "namespace": "kube-system"}}
    assert await codes(pytorch("x", hostNetwork=True)) == {"confined.host"}
    assert await codes(reading("theirs")) == {"confined.secret"}
    assert await codes(mounting("/etc")) == {"confined.path"}
    assert await codes(mounting("/tmp")) == set()
    assert await codes(labelled) == {"confined.label"}
    assert await codes(elsewhere) == {"job.namespace"}
    (await ann("POST", "jobs", {"manifest": text(reading("theirs"))})).refused(422)
    (await admin("POST", "jobs", {"manifest": text(labelled)})).refused(422)
    await submit(admin, pytorch("x", "true", hostNetwork=True))

    await submit(ann, reading("ours"))
    await until(ann, "user-ann/pytorchjob/reads-ours", "succeeded")
    log = await ann.get("jobs/user-ann/pytorchjob/reads-ours/pods/reads-ours-master-0/log")
    assert log == "the key is ***\n"


async def test_queues_of_virtual_clusters_need_permission(muster: Whole) -> None:
    admin = muster.admin
    await admin.post("teams", {"name": "vision"})
    ann, eve = await muster.member("ann", "vision"), await muster.member("eve")
    cluster = await admin.post("clusters", {"name": "big", "sku": {"cpu": "1"}, "team": "vision"})
    obj = pytorch("queued", policy={"schedulingPolicy": {"queue": f"vc-{cluster['id']}"}})
    (problem,) = (await eve.post("jobs/validate", {"manifest": text(obj)}))["problems"]
    assert (problem["code"], problem["path"]) == ("job.queue", "spec.runPolicy.schedulingPolicy.queue")
    assert (await ann.post("jobs/validate", {"manifest": text(obj)}))["problems"] == []


async def test_the_job_of_a_run_belongs_to_the_owner_of_the_run(muster: Whole) -> None:
    ann, eve = await muster.member("ann"), await muster.member("eve")
    training = {
        "name": "train",
        "kind": "training",
        "image": "python:3.11",
        "command": "echo rank $RANK, the word is $WORD",
        "env": [{"name": "WORD", "value": "sesame-open", "secret": True}],
        "training": {"kind": "PyTorchJob", "roles": [{"name": "Master"}, {"name": "Worker", "replicas": 1}]},
    }
    await stored(ann, "training", graph(training))
    run = await ann.post("runs", {"workflow": "training", "name": "Monday"})
    assert (await ended(ann, run["id"]))["state"] == "succeeded"
    (found,) = (await ann.get(f"jobs?run={run['id']}"))["items"]
    assert (found["owner_name"], found["run_name"], found["state"]) == ("ann", "Monday", "succeeded")
    assert (await eve.get("jobs"))["total"] == 0
    (await eve("GET", f"jobs/user-ann/pytorchjob/{found['name']}")).refused(404)
    log = await ann.get(f"jobs/user-ann/pytorchjob/{found['name']}/pods/{found['name']}-master-0/log")
    assert log == "rank 0, the word is ***\n"
    # A job that only claims to belong to a run has no owner.
    fake = pytorch("fake", "true")
    labels = {"muster.dev/run": run["id"]}
    await muster.cluster.create({**fake, "metadata": {"name": "fake", "namespace": "default", "labels": labels}})
    await eventually(lambda: _has(muster.admin, "jobs", 2))
    assert (await ann.get("jobs"))["total"] == 1


def test_kinds_have_words_for_their_urls() -> None:
    assert isinstance(job_kind_named("pytorchjob"), PyTorch)
    assert job_kind_named("pod") is None


async def _has(client: Client, path: str, count: int) -> bool:
    return bool((await client.get(path))["total"] == count)


async def _first(client: Client, path: str, name: str) -> list[dict[str, Any]]:
    found = []
    async for event in events(client, path):
        found.append(event)
        if event["event"] == name:
            break
    return found


async def _until_gone(client: Client, path: str, after: str) -> AsyncIterator[dict[str, Any]]:
    """Deletes it once it has reached this state."""
    async for event in events(client, f"jobs/{path}/events"):
        yield event
        if event["data"] and event["data"]["state"] == after:
            await client("DELETE", f"jobs/{path}")


def _secret(name: str, labels: dict[str, str]) -> Object:
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": SECRET.api_version, "kind": SECRET.kind, "metadata": metadata, "data": {"key": "c2VzYW1l"}}
