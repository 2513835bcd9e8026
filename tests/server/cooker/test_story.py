"""MLP Cooker's API on a complete Muster, with the commands that its guide prints: jobs really run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import POD, SECRET, SERVICE
from muster.kube.objects import status_of
from muster.platform.database.database import sqlite_url
from muster.platform.users.credentials import local_token, platform_folder
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from tests.server.platform.served import Client
from tests.server.platform.whole import PATIENCE, Whole, eventually

REPORT = (
    'curl -s -o /dev/null -w "%{http_code}" -H "Authorization: Bearer $MUSTER_PROGRESS_TOKEN" "$MUSTER_PROGRESS_URL" '
    """--json '{"progress": 0.5, "message": "half", "metrics": {"loss": 0.25}}'"""
)
TASK = {
    "name": "my-job",
    "jobType": "PyTorchJob",
    "command": "echo rank $RANK of $WORLD_SIZE; [[ -n $BASH_VERSION ]] && echo in bash; cat /data/words\n"
    "while [ $RANK = 0 -a ! -e /data/worker-ended ]; do sleep 0.05; done",
    "jobSpec": {
        "replicas": 2,
        "image": "registry.baidubce.com/aihc-aiak/pytorch:latest",
        "resources": [],
        "envs": [{"name": "NCCL_DEBUG", "value": "INFO"}],
        "enableRDMA": True,
    },
    "datasources": [{"type": "pfs", "name": "pfs-1", "mountPath": "/data", "readOnly": True}],
}


@pytest.fixture
async def muster(tmp_path: Path) -> AsyncIterator[Whole]:
    storage = tmp_path / "pfs"
    storage.mkdir()
    (storage / "words").write_text("from the storage root\n")
    home = tmp_path / "home"
    config = {
        "durability": "process",
        "database": sqlite_url(tmp_path / "platform.db"),
        "cooker": {"datasources": {"pfs:*": {"storageRoot": "shared"}}},
    }
    async with run_server(read_settings(home, config), web=True) as server:
        running = Whole(server.info.web, home, server.cluster)
        root = {"name": "shared", "path": "/mnt/shared", "host_path": str(storage)}
        await running.admin.post("storage", root)
        yield running


def secret_of(client: Client) -> str:
    return client._headers["Authorization"].removeprefix("Bearer ")


async def curl(*arguments: str) -> Any:
    """Runs the real curl and returns the JSON that it prints."""
    process = await asyncio.create_subprocess_exec(
        "curl", "-s", "--max-time", "60", *arguments, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, arguments
    return json.loads(said)


async def call(url: str, token: str, method: str = "GET", body: Mapping[str, Any] | None = None) -> Any:
    data = [] if body is None else ["-d", json.dumps(body)]
    answer = await curl("-X", method, url, "-H", f"Authorization: Bearer {token}", *data)
    assert answer["success"] is True, answer
    return answer["data"]


async def ended(url: str, token: str, job: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found: dict[str, Any] = (await call(f"{url}/api/jobs/{job}?needDetail=true", token))["job"]
            if found["status"] in ("Succeeded", "Failed", "Stopped"):
                return found
            await asyncio.sleep(0.1)


async def worker_ended(url: str, token: str, job: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            pods = (await call(f"{url}/api/jobs/{job}?needDetail=true", token))["job"]["pods"]
            if len(pods) == 2 and pods[1]["status"] == "Succeed":
                return
            await asyncio.sleep(0.1)


async def log_of_worker(url: str, token: str, job: str) -> str:
    """Returns the address of the log as soon as something is written."""
    async with asyncio.timeout(PATIENCE):
        while True:
            pods = (await call(f"{url}/api/jobs/{job}?needDetail=true", token))["job"]["pods"]
            path = f"{url}/api/jobs/{job}/pods/{pods[-1]['name']}/logs" if len(pods) == 2 else ""
            if path and (await call(path, token))["logs"]:
                return path
            await asyncio.sleep(0.1)


async def test_a_job_is_created_runs_and_is_described(muster: Whole, tmp_path: Path) -> None:
    ann = await muster.member("ann")
    bob = await muster.member("bob")
    service = await muster.cluster.get(SERVICE, "mlp-cooker-backend", "kube-system")
    url = f"http://{service['spec']['clusterIP']}:5002"
    token = secret_of(ann)
    assert (await curl(f"{url}/api/health"))["success"] is True

    # As the guide prints it, with the token in the address because curl in a template sends nothing else.
    by_address = url.replace("http://", f"http://token:{token}@")
    created = await curl(
        "-X", "POST", f"{by_address}/api/jobs/create", "-H", "Content-Type: application/json",
        "-d", json.dumps({"taskParams": TASK}),
    )  # fmt: skip
    assert created["success"] is True, created
    assert created["data"]["warnings"] == ["enableRDMA has no effect on this cluster"]
    assert json.dumps(created).count('"success":') == 1
    job = created["data"]["jobId"]

    await worker_ended(url, token, job)  # the end of the master would remove it
    (tmp_path / "pfs" / "worker-ended").touch()
    done = await ended(url, token, job)
    assert (done["status"], done["jobType"], done["owner"]) == ("Succeeded", "PyTorchJob", "ann"), done
    assert [pod["status"] for pod in done["pods"]] == ["Succeed", "Succeed"]
    log = await call(f"{url}/api/jobs/{job}/pods/{done['pods'][0]['name']}/logs", token)
    assert (log["logs"], log["nextMarker"]) == (["rank 0 of 2", "in bash", "from the storage root"], "")
    piece = await call(f"{url}/api/jobs/{job}/pods/{done['pods'][0]['name']}/logs?maxLines=2", token)
    rest = await call(f"{url}/api/jobs/{job}/pods/{done['pods'][0]['name']}/logs?marker={piece['nextMarker']}", token)
    assert piece["logs"] + rest["logs"] == log["logs"]
    happened = await call(f"{url}/api/jobs/{job}/events", token)
    assert {"Starting", "Succeeded"} <= {event["reason"] for event in happened["events"]}

    listed = await call(f"{url}/api/jobs", token, "POST", {"keyword": "my-", "status": "Succeeded"})
    assert [(each["jobId"], each["name"]) for each in listed["jobs"]] == [(job, "my-job")]
    assert (await call(f"{url}/api/jobs", secret_of(bob), "POST"))["totalCount"] == 0
    for path, method in ((job, "GET"), (f"{job}/events", "GET"), (f"{job}/stop", "POST"), (job, "DELETE")):
        refused = await curl("-X", method, f"{url}/api/jobs/{path}?token={secret_of(bob)}")
        assert (refused["success"], refused["details"]["status"]) == (False, 404)
    terminal = await curl(f"{url}/api/jobs/{job}/pods/x/webterminal?token={token}")
    assert (terminal["success"], "muster exec -n user-ann" in terminal["message"]) == (False, True)

    on_platform = await ann.get(f"dispatch/jobs/{job}")
    assert (on_platform["state"], on_platform["kind"], on_platform["namespace"]) == (
        "succeeded", "PyTorchJob", "user-ann",
    )  # fmt: skip
    assert (await ann.get(f"dispatch/jobs/{job}/log?tail=1")).endswith("worker-0 | from the storage root\n")
    assert (await call(f"{url}/api/jobs/{job}", token, "DELETE"))["jobId"] == job
    assert (await call(f"{url}/api/jobs", token, "POST"))["totalCount"] == 0

    # A job has succeeded when its master has. Its worker is removed, but not what the worker wrote.
    one_waits = "[ $RANK = 1 ] && echo from the worker && sleep 600; while [ ! -e /data/gate ]; do sleep 0.05; done"
    waiting = {"taskParams": {**TASK, "command": one_waits}}
    uneven = (await call(f"{url}/api/jobs/create", token, "POST", waiting))["jobId"]
    worker_log = await log_of_worker(url, token, uneven)
    (tmp_path / "pfs" / "gate").touch()
    assert (await ended(url, token, uneven))["status"] == "Succeeded"
    assert (await call(worker_log, token))["logs"] == ["from the worker"]

    # A running job is stopped, and what has no place on this cluster is refused by name.
    sleeper = {**TASK, "command": "sleep 600", "datasources": []}
    long = (await call(f"{url}/api/jobs/create", token, "POST", {"taskParams": json.dumps(sleeper)}))["jobId"]
    await call(f"{url}/api/jobs/{long}/stop", token, "POST")
    assert (await ended(url, token, long))["status"] == "Stopped"
    odd = {**TASK, "datasources": [{"type": "bos", "sourcePath": "my-bucket/", "mountPath": "/data"}]}
    refused = await curl(f"{url}/api/jobs/create?token={token}", "-d", json.dumps({"taskParams": odd}))
    assert refused["success"] is False
    assert 'bos "my-bucket" has no place on this cluster' in refused["message"]

    # A container of a member is confined as all their Pods are.
    container = {"name": "plain", "image": "python:3.11", "command": ["sh", "-c", f"echo $GREETING; {REPORT}"]}
    outside = [{"path": "/host", "source": "/etc"}]
    problem = (await ann("POST", "dispatch/jobs", {**container, "mounts": outside})).refused(422)
    assert "/etc" in problem["detail"]
    plain = await ann.post("dispatch/jobs", {**container, "env": {"GREETING": "hello"}})

    async def is_done() -> bool:
        return bool((await ann.get(f"dispatch/jobs/{plain['id']}"))["state"] == "succeeded")

    await eventually(is_done)
    assert await ann.get(f"dispatch/jobs/{plain['id']}/log") == "hello\n204\n"
    told = await ann.get(f"dispatch/jobs/{plain['id']}")
    assert (told["progress"], told["message"], told["metrics"]) == (0.5, "half", {"loss": 0.25})
    assert (await muster.cluster.list(SECRET, "user-ann")).items == []

    # A Pod of any namespace reaches it by name, and gains nothing without a token.
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "client", "namespace": "user-ann"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "curlimages/curl:latest",
                    "command": ["curl", "-s", "http://mlp-cooker-backend:5002/api/resources/pools"],
                }
            ],
        },
    }
    await muster.cluster.create(pod)

    async def has_ended() -> bool:
        found = await muster.cluster.get(POD, "client", "user-ann")
        return status_of(found).get("phase") in ("Succeeded", "Failed")

    await eventually(has_ended)
    said = b"".join([piece async for piece in muster.cluster.logs("client", "user-ann")])
    assert json.loads(said)["details"]["code"] == "AUTH_FAILED"
    assert local_token(platform_folder(muster.home)) not in said.decode()
