"""The whole path on an empty machine: an author creates a module, a leader publishes it, a member uses it in a
workflow, runs it, fixes a failure, and runs a copy. Users without permission are refused. On SQLite and on PostgreSQL,
with real repositories, builds and processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from tests.platform.modules.git_repositories import GitRepository
from tests.server.platform.served import Client
from tests.server.platform.whole import Whole, built, ended, states


@pytest.fixture
async def muster(tmp_path: Path, database_url: str) -> AsyncIterator[Whole]:
    said = {
        "durability": "process",
        "web": {"port": 0},
        "database": database_url,
        "modules": {"localRepositories": [str(tmp_path / "git")]},
    }
    async with run_server(read_settings(tmp_path / "home", said), web=True) as server:
        yield Whole(server.info.web, tmp_path / "home", server.cluster)


def pipeline(shared: Path, version: str = "1") -> dict[str, Any]:
    """Prepares a text, hashes it with the module, and checks the result unless it must fail."""
    gate = f'test -e {shared}/open || {{ echo "the gate is shut"; exit 3; }}\necho "$word $digest"'
    return {
        "format": 1,
        "parameters": [{"name": "word", "required": True}],
        "nodes": [
            {
                "name": "prepare",
                "image": "busybox",
                "command": f'echo prepare >> {shared}/ran\nprintf %s "$word!" > /tmp/text.txt',
                "inputs": [{"name": "word", "from": {"parameter": "word"}}],
                "outputs": [{"name": "text", "path": "/tmp/text.txt"}],
                "storage": [{"root": "shared"}],
            },
            {
                "name": "hash",
                "kind": "module",
                "module": {"name": "hash-text", "version": version},
                "inputs": [{"name": "text", "from": {"node": "prepare", "output": "text"}}],
            },
            {
                "name": "check",
                "image": "busybox",
                "command": gate,
                "inputs": [
                    {"name": "word", "from": {"parameter": "word"}},
                    {"name": "digest", "from": {"node": "hash", "output": "digest"}},
                ],
                "storage": [{"root": "shared"}],
            },
        ],
        "edges": [{"from": "prepare", "to": "hash"}, {"from": "hash", "to": "check"}],
    }


async def log(client: Client, run: str, node: str) -> str:
    return str(await client.get(f"runs/{run}/nodes/{node}/log"))


@pytest.mark.timeout(300)
async def test_from_an_empty_machine_to_a_copied_run(muster: Whole, tmp_path: Path) -> None:
    admin, shared = muster.admin, tmp_path / "shared"
    shared.mkdir()
    await admin.post("categories", {"name": "text"})
    await admin.post("storage", {"name": "shared", "path": str(shared)})
    await admin.post("teams", {"name": "nlp"})
    ann = await muster.member("ann", "nlp")
    lea = await muster.member("lea", "nlp", "leader")
    mia, eve = await muster.member("mia"), await muster.member("eve")

    # The author's module.
    repository = GitRepository(tmp_path / "git" / "hash")
    body = {
        "name": "hash-text",
        "category": "text",
        "git_url": str(repository.path),
        "git_ref": "main",
        "inputs": [{"name": "text", "description": "what to hash"}],
        "outputs": [{"name": "digest", "path": "/tmp/workflow_space/digest.txt"}],
    }
    (await mia("POST", "modules", {**body, "git_url": str(tmp_path)})).refused(422)
    await ann.post("modules", body)
    version = await built(ann, "hash-text")
    assert (version["state"], version["git_commit"]) == ("private", repository.git("rev-parse", "HEAD"))
    refused = await mia("POST", "workflows", {"name": "hashes", "version": {"document": pipeline(shared)}})
    assert refused.refused(422)["errors"][0]["code"] == "module.unknown"
    await ann.post("workflows", {"name": "draft", "version": {"document": pipeline(shared)}})
    (await eve("POST", "runs", {"workflow": "draft", "parameters": {"word": "x"}})).refused(422)

    # Its review.
    review = await ann.post("modules/hash-text/versions/1/review", {"message": "it works"})
    for client, status in ((ann, 403), (mia, 403), (eve, 403)):
        (await client("POST", f"reviews/{review['id']}/approve")).refused(status)
    assert (await mia.get("reviews"))["total"] == 0
    await lea.post(f"reviews/{review['id']}/approve")

    # A member's workflow.
    assert [m["name"] for m in (await mia.get("modules?usable=true"))["items"]] == ["hash-text"]
    await mia.post("workflows", {"name": "hashes", "version": {"document": pipeline(shared)}})
    (await eve("POST", "workflows/hashes/versions", {"document": pipeline(shared)})).refused(403)
    run = await mia.post("runs", {"workflow": "hashes", "parameters": {"word": "good"}})
    failed = await ended(mia, run["id"])
    assert (failed["state"], states(failed)) == (
        "failed", {"prepare": "succeeded", "hash": "succeeded", "check": "failed"},
    )  # fmt: skip
    assert await log(mia, run["id"], "hash") == "hashed good!\n"
    assert await log(mia, run["id"], "check") == "the gate is shut\n"
    shown = await mia.get(f"runs/{run['id']}/nodes/hash")
    assert [output["value"] for output in shown["outputs"]] == [sha256(b"good!").hexdigest()]
    for method, path in (("POST", "retry"), ("POST", "stop"), ("GET", "nodes/hash/log"), ("GET", "nodes/hash")):
        (await eve(method, f"runs/{run['id']}/{path}")).refused(403)

    # Succeeded nodes do not run again.
    (shared / "open").touch()
    await mia.post(f"runs/{run['id']}/retry")
    done = await ended(mia, run["id"])
    assert (done["state"], set(states(done).values())) == ("succeeded", {"succeeded"})
    assert (shared / "ran").read_text() == "prepare\n"
    assert await log(mia, run["id"], "check") == f"good {sha256(b'good!').hexdigest()}\n"

    # Run a copy with another parameter.
    (await eve("POST", f"runs/{run['id']}/copy", {"parameters": {"word": "bad"}})).refused(403)
    copied = await mia.post(f"runs/{run['id']}/copy", {"parameters": {"word": "better"}})
    again = await ended(mia, copied["id"])
    assert again["state"] == "succeeded"
    assert await log(mia, copied["id"], "check") == f"better {sha256(b'better!').hexdigest()}\n"

    # A deprecated version still works where it is used, but cannot be added.
    await lea.post("modules/hash-text/versions/1/deprecate")
    copied = await mia.post(f"runs/{run['id']}/copy", {"parameters": {"word": "old"}})
    assert (await ended(mia, copied["id"]))["state"] == "succeeded"
    await mia.post("workflows/hashes/versions", {"document": pipeline(shared)})
    refused = await eve("POST", "workflows", {"name": "late", "version": {"document": pipeline(shared)}})
    assert refused.refused(422)["errors"][0]["code"] == "module.retired"
    (await ann("DELETE", "modules/hash-text")).refused(409)
