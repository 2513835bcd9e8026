"""Modules, categories and reviews over HTTP, on SQLite and on PostgreSQL, with real repositories."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.platform.settings import ModuleSettings
from tests.platform.modules.git_repositories import FILES, GitRepository
from tests.server.platform.served import Client, Served

OUTPUT = {"name": "digest", "path": "/tmp/workflow_space/digest.txt", "type": "text", "description": "SHA-256"}


@dataclass
class Place:
    """A platform that builds modules, with a category and some users. Lea leads the team of Ann and Tom."""

    served: Served
    repository: GitRepository
    admin: Client
    ann: Client
    lea: Client
    tom: Client
    eve: Client

    def body(self, name: str = "hash-text", **more: Any) -> dict[str, Any]:
        usual = {
            "name": name,
            "category": "text",
            "git_url": str(self.repository.path),
            "git_ref": "main",
            "inputs": [{"name": "text", "description": "what to hash"}],
            "outputs": [OUTPUT],
        }
        return {**usual, **more}

    async def built(self, client: Client | None = None, **more: Any) -> Any:
        """Creates a module of Ann's and waits for its build."""
        client = client or self.ann
        module = await client.post("modules", self.body(**more))
        return await self.over(client, module["name"])

    async def over(self, client: Client, module: str, version: str = "latest") -> Any:
        while True:
            found = await client.get(f"modules/{module}/versions/{version}")
            if found["state"] != "building":
                return found
            await asyncio.sleep(0.05)

    async def published(self, **more: Any) -> Any:
        version = await self.built(**more)
        name = more.get("name", "hash-text")
        review = await self.ann.post(f"modules/{name}/versions/{version['number']}/review", {"message": "please"})
        await self.lea.post(f"reviews/{review['id']}/approve")
        return await self.ann.get(f"modules/{name}/versions/{version['number']}")


@pytest.fixture
async def place(served: Served, tmp_path: Path) -> AsyncIterator[Place]:
    local = ModuleSettings(local_repositories=(tmp_path / "git",))
    served.platform.settings = replace(served.platform.settings, modules=local)
    people = {name: await served.user(name) for name in ("ann", "lea", "tom", "eve")}
    await served.admin.post("categories", {"name": "text", "description": "Texts"})
    await served.admin.post("teams", {"name": "nlp"})
    for name, role in (("ann", "member"), ("lea", "leader"), ("tom", "member")):
        (await served.admin("PUT", f"teams/nlp/members/{name}", {"role": role})).ok()
    task = asyncio.create_task(served.platform.builds.run())
    yield Place(served, GitRepository(tmp_path / "git" / "hash"), served.admin, **people)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_from_a_repository_to_a_published_module(place: Place) -> None:
    created = await place.ann.post("modules", place.body(description="Hashes texts"))
    assert (created["state"], created["versions"], created["team_name"]) == ("building", 1, "nlp")
    version = await place.over(place.ann, "hash-text")
    assert (version["state"], version["runs_as"]) == ("private", "folder")
    assert version["git_commit"] == place.repository.git("rev-parse", "HEAD")
    assert version["entrypoint"] == ["python3", "main.py"]
    assert version["readme"] == FILES["README.md"]
    assert version["steps"] == ["ask review"]
    assert "commit " in await place.ann.get("modules/hash-text/versions/1/log")

    # Other users do not see it, except those who may review it.
    (await place.tom("GET", "modules/hash-text")).refused(404)
    (await place.eve("GET", "modules/hash-text/versions/1")).refused(404)
    assert (await place.tom.get("modules"))["total"] == 0
    assert (await place.lea.get("modules"))["total"] == 1
    assert (await place.ann.get("modules?mine=true&usable=true&state=private&category=text"))["total"] == 1
    assert (await place.lea.get("modules?usable=true"))["total"] == 0

    review = await place.ann.post("modules/hash-text/versions/1/review", {"message": "please"})
    assert (review["state"], review["module_name"], review["number"]) == ("open", "hash-text", 1)
    (await place.ann("POST", "modules/hash-text/versions/1/review")).refused(409)
    problem = (await place.ann("POST", f"reviews/{review['id']}/approve")).refused(403)
    assert "only" in problem["detail"] or "you may not" in problem["detail"]
    (await place.tom("POST", f"reviews/{review['id']}/approve")).refused(403)
    (await place.eve("POST", f"reviews/{review['id']}/reject", {"reason": "no"})).refused(403)
    problem = (await place.lea("POST", f"reviews/{review['id']}/reject", {"reason": " "})).refused(422)
    assert problem["errors"][0]["field"] == "reason"
    rejected = await place.lea.post(f"reviews/{review['id']}/reject", {"reason": "no example in the readme"})
    assert (rejected["state"], rejected["decided_by_name"]) == ("rejected", "lea")
    (await place.admin("POST", f"reviews/{review['id']}/approve")).refused(409)
    version = await place.ann.get("modules/hash-text/versions/1")
    assert (version["state"], version["reason"]) == ("rejected", "no example in the readme")

    again = await place.ann.post("modules/hash-text/versions/1/review")
    await place.admin.post(f"reviews/{again['id']}/approve")
    for client in (place.ann, place.tom, place.eve):
        assert (await client.get("modules?usable=true"))["items"][0]["state"] == "published"
    seen = await place.eve.get("modules/hash-text/versions/latest")
    assert seen["readme"] == FILES["README.md"]
    (await place.eve("GET", "modules/hash-text/versions/1/log")).refused(403)

    assert [r["state"] for r in (await place.ann.get("reviews"))["items"]] == ["approved", "rejected"]
    assert (await place.lea.get("reviews?state=rejected&module=hash-text&author=ann"))["total"] == 1
    assert (await place.tom.get("reviews"))["total"] == 0
    assert (await place.admin.get("reviews?sort=decided"))["total"] == 2
    done = [(e["action"], e["kind"]) for e in (await place.admin.get("audit?sort=at&limit=500"))["items"]]
    assert done[-7:] == [
        ("create", "module"), ("build", "module"), ("built", "module"), ("ask", "review"), ("reject", "review"),
        ("ask", "review"), ("approve", "review"),
    ]  # fmt: skip


async def test_an_edit_builds_a_new_version_and_keeps_the_published_one(place: Place) -> None:
    first = await place.published()
    moved = place.repository.commit({"main.py": "print(2)"})
    (await place.tom("PATCH", "modules/hash-text", {"git_ref": "v2"})).refused(403)
    described = (await place.ann("PATCH", "modules/hash-text", {"description": "better"})).ok()
    assert (described["versions"], described["description"]) == (1, "better")
    stale = {"If-Match": f'"x-{described["revision"] - 1}"'}
    (await place.ann("PATCH", "modules/hash-text", {"env": []}, headers=stale)).refused(412)

    changed = {"env": [{"name": "MODE", "value": "fast"}, {"name": "API_TOKEN", "value": "hunter2"}]}
    edited = await place.ann("PATCH", "modules/hash-text", changed, headers={"If-Match": f'"{described["revision"]}"'})
    assert edited.ok()["versions"] == 2
    second = await place.over(place.ann, "hash-text")
    assert (second["number"], second["state"], second["git_commit"]) == (2, "private", moved)
    assert second["env"][1] == {"name": "API_TOKEN", "value": "hunter2", "secret": True}
    assert (await place.eve.get("modules/hash-text"))["versions"] == 1
    assert (await place.eve.get("modules/hash-text/versions"))["items"][0]["git_commit"] == first["git_commit"]
    (await place.eve("GET", "modules/hash-text/versions/2")).refused(404)

    # A client that sends back the masked secret keeps its value. Without a change, nothing is built.
    same = {"env": [{"name": "MODE", "value": "fast"}, {"name": "API_TOKEN", "value": "", "secret": True}]}
    assert (await place.ann("PATCH", "modules/hash-text", same)).ok()["versions"] == 2
    assert (await place.ann.post("modules/hash-text/build"))["versions"] == 3
    third = await place.over(place.ann, "hash-text")
    review = await place.ann.post(f"modules/hash-text/versions/{third['number']}/review")
    await place.admin.post(f"reviews/{review['id']}/approve")
    shown = await place.eve.get("modules/hash-text/versions/latest")
    assert shown["number"] == 3
    assert {variable["value"] for variable in shown["env"]} == {""}

    await place.ann.post("modules/hash-text/versions/3/deprecate")
    assert (await place.eve.get("modules/hash-text"))["public_number"] == 1
    (await place.eve("POST", "modules/hash-text/versions/3/restore")).refused(403)
    await place.lea.post("modules/hash-text/versions/3/restore")
    assert (await place.eve.get("modules/hash-text"))["public_number"] == 3


async def test_reviewers_see_the_source_and_what_has_changed(place: Place) -> None:
    await place.published()
    place.repository.commit({"main.py": "print('new')\n", "logo.bin": "\0"})
    await place.ann.post("modules/hash-text/build")
    await place.over(place.ann, "hash-text")
    base = "modules/hash-text/versions"
    for client in (place.tom, place.eve):
        (await client("GET", f"{base}/2/source")).refused(404)
        (await client("GET", f"{base}/1/source")).refused(403)  # it is public, but its source is not
        (await client("GET", f"{base}/1/source/file?path=main.py")).refused(403)
    listing = await place.lea.get(f"{base}/2/source?against=1")
    changes = {each["path"]: (each["kind"], each["change"]) for each in listing["files"]}
    assert (listing["stored"], listing["compared"]) == (True, True)
    assert (changes["main.py"], changes["logo.bin"]) == (("text", "changed"), ("binary", "added"))
    assert changes["README.md"] == ("text", "same")
    assert (await place.lea.get(f"{base}/2/source/file?path=main.py"))["text"] == "print('new')\n"
    assert (await place.lea.get(f"{base}/1/source/file?path=main.py"))["text"] == FILES["main.py"]
    assert (await place.lea.get(f"{base}/2/source/file?path=logo.bin"))["text"] is None
    for path in ("../build.log", "/etc/passwd", "nothing"):
        (await place.lea("GET", f"{base}/2/source/file?path={path}")).refused(404)


async def test_a_failed_build_gives_its_reason_and_can_be_retried(place: Place) -> None:
    place.repository.commit({"Dockerfile": "FROM a\nCMD x\n"})
    failed = await place.built()
    assert failed["state"] == "build failed"
    assert failed["reason"].startswith("Dockerfile: line 2: a module has no CMD")
    (await place.ann("POST", "modules/hash-text/versions/1/review")).refused(409)
    mended = place.repository.commit(FILES)
    await place.ann.post("modules/hash-text/versions/1/retry")
    assert (await place.over(place.ann, "hash-text"))["git_commit"] == mended
    log = await place.ann.get("modules/hash-text/versions/1/log")
    assert "a module has no CMD" in log
    assert "the build starts again" in log


async def test_the_log_is_followed_and_resumed(place: Place) -> None:
    await place.built()
    whole = await place.ann.get("modules/hash-text/versions/1/log")
    events = await followed(place.ann, "modules/hash-text/versions/1/log/events")
    assert "".join(data["text"] for _, name, data in events if name == "message") == whole
    assert events[-1][1:] == ("end", {"state": "private"})
    middle = whole.index("\n") + 1
    rest = await followed(place.ann, "modules/hash-text/versions/1/log/events", last=str(middle))
    assert "".join(data["text"] for _, name, data in rest if name == "message") == whole[middle:]
    done = await followed(place.ann, "modules/hash-text/versions/1/log/events", last=events[-1][0])
    assert [name for _, name, _ in done] == ["end"]
    (await place.tom("GET", "modules/hash-text/versions/1/log/events")).refused(404)


async def test_versions_have_etags(place: Place) -> None:
    await place.built()
    reply = await place.ann("GET", "modules/hash-text/versions/1")
    again = await place.ann("GET", "modules/hash-text/versions/1", headers={"If-None-Match": reply.headers["ETag"]})
    assert again.status == 304
    await place.ann.post("modules/hash-text/versions/1/review")
    changed = await place.ann("GET", "modules/hash-text/versions/1", headers={"If-None-Match": reply.headers["ETag"]})
    assert changed.status == 200


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"name": "Hash"}, "name"),
        ({"name": "-hash"}, "name"),
        ({"name": "ha/sh"}, "name"),
        ({"name": "a" * 64}, "name"),
        ({"category": "none"}, "category"),
        ({"team": "none"}, "team"),
        ({"git_url": "ext::sh -c touch% /tmp/evil"}, "git_url"),
        ({"git_url": "--upload-pack=touch /tmp/evil"}, "git_url"),
        ({"git_url": "https://host/a\n[core]"}, "git_url"),
        ({"git_url": "/etc"}, "git_url"),
        ({"git_url": "file:///etc"}, "git_url"),
        ({"git_ref": "--output=/tmp/evil"}, "git_ref"),
        ({"git_ref": "main..x"}, "git_ref"),
        ({"git_ref": "a:b"}, "git_ref"),
        ({"dockerfile": "../Dockerfile"}, "dockerfile"),
        ({"dockerfile": "/"}, "dockerfile"),
        ({"build_dir": "a/../../b"}, "build_dir"),
        ({"readme_path": ".git/config.md"}, "readme_path"),
        ({"env": [{"name": "AI_HUB_TOKEN"}]}, "env[0].name"),
        ({"env": [{"name": "a b"}]}, "env[0].name"),
        ({"env": [{"name": "A"}, {"name": "A"}]}, "env[1].name"),
        ({"inputs": [{"name": "a=b"}]}, "inputs[0].name"),
        ({"inputs": [{"name": "a"}], "env": [{"name": "a"}]}, "inputs[0].name"),
        ({"outputs": [{"name": "a", "path": "relative"}]}, "outputs[0].path"),
        ({"outputs": [{"name": "a", "path": "/a"}, {"name": "b", "path": "/./a"}]}, "outputs[1].path"),
        ({"outputs": [{"name": "a", "path": "/a", "type": "folder"}]}, "outputs[0].type"),
        ({"build_args": ["--x"]}, "build_args"),
    ],
)
async def test_errors_name_the_field(place: Place, more: dict[str, Any], field: str) -> None:
    problem = (await place.ann("POST", "modules", place.body(**more))).refused(422)
    assert [error["field"] for error in problem["errors"]] == [field]


async def test_names_are_unique_and_categories_are_for_admins(place: Place) -> None:
    await place.built()
    (await place.eve("POST", "modules", place.body(git_url="https://host.invalid/x"))).refused(409)
    (await place.ann("POST", "categories", {"name": "mine"})).refused(403)
    (await place.admin("POST", "categories", {"name": "text"})).refused(409)
    (await place.admin("DELETE", "categories/text")).refused(409)
    assert (await place.eve.get("categories"))["items"][0]["modules"] == 1
    made = await place.admin.post("categories", {"name": "图像"})
    (await place.admin("PATCH", "categories/图像", {"name": "images"}, headers={"If-Match": '"9"'})).refused(412)
    assert (await place.admin("PATCH", f"categories/{made['id']}", {"name": "images"})).ok()["revision"] == 2
    (await place.admin("DELETE", "categories/images")).ok()


async def test_authors_cannot_decide_on_their_own_reviews(place: Place) -> None:
    boss = await place.served.user("boss", "admin")
    await place.built()
    await boss("PATCH", "modules/hash-text", {"env": [{"name": "A", "value": "b"}]})
    await place.over(place.ann, "hash-text", "2")
    review = await place.ann.post("modules/hash-text/versions/2/review")
    (await boss("POST", f"reviews/{review['id']}/approve")).refused(403)
    await place.ann.post(f"reviews/{review['id']}/withdraw")
    assert (await place.ann.get("modules/hash-text/versions/2"))["state"] == "private"
    own = await place.built(boss, name="own")
    review = await boss.post(f"modules/own/versions/{own['number']}/review")
    problem = (await boss("POST", f"reviews/{review['id']}/approve")).refused(403)
    assert "you may not decide your own review" in problem["detail"]


async def test_credentials_in_a_url_are_stored_but_not_shown(place: Place) -> None:
    url = "http://ann:hunter2@127.0.0.1:1/x.git"
    failed = await place.built(git_url=url)
    assert failed["git_url"] == "http://***@127.0.0.1:1/x.git"
    assert failed["state"] == "build failed"
    log = await place.ann.get("modules/hash-text/versions/1/log")
    assert "hunter2" not in log + str(await place.admin.get("audit?limit=500"))
    (await place.ann("PATCH", "modules/hash-text", {"git_url": failed["git_url"], "git_ref": "other"})).ok()
    assert (await place.over(place.ann, "hash-text"))["git_url"] == failed["git_url"]


async def test_a_deleted_module_leaves_nothing_behind(place: Place) -> None:
    await place.built()
    (await place.lea("DELETE", "modules/hash-text")).refused(403)
    document = {
        "format": 1,
        "nodes": [
            {
                "name": "a",
                "kind": "module",
                "module": {"name": "hash-text", "version": "1"},
                "inputs": [{"name": "text", "value": "x"}],
            }
        ],
        "edges": [],
    }
    problem = (await place.eve("POST", "graphs/check", {"document": document})).ok()["problems"]
    assert problem[0]["code"] == "module.unknown"
    await place.ann.post("workflows", {"name": "uses it", "version": {"document": document}})
    assert "uses it" in (await place.ann("DELETE", "modules/hash-text")).refused(409)["detail"]
    (await place.ann("DELETE", "workflows/uses it")).ok()
    (await place.ann("DELETE", "modules/hash-text")).ok()
    assert list((place.served.folder / "modules").iterdir()) == []


async def test_a_build_can_be_stopped(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never responds
        port = silent.getsockname()[1]
        await place.ann.post("modules", place.body(git_url=f"http://127.0.0.1:{port}/x.git"))
        stopped = await place.ann.post("modules/hash-text/versions/1/stop")
        assert (stopped["state"], stopped["reason"]) == ("build failed", "ann stopped it")
        (await place.ann("POST", "modules/hash-text/versions/1/stop")).refused(409)


async def followed(client: Client, path: str, last: str = "") -> list[tuple[str, str, Any]]:
    """Returns all events of a stream that ends: id, name and data."""
    headers = {"Last-Event-ID": last} if last else {}
    reply = await client("GET", path, headers=headers)
    found = []
    for block in reply.ok().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields["id"], fields.get("event", "message"), orjson.loads(fields["data"])))
    return found


async def test_responses_list_the_permitted_actions(place: Place) -> None:
    await place.built()
    everything = ["use", "inspect", "edit", "ask review", "deprecate", "delete"]
    assert (await place.ann.get("modules/hash-text"))["may"] == everything
    assert (await place.lea.get("modules/hash-text"))["may"] == ["inspect", "deprecate"]
    assert (await place.admin.get("modules"))["items"][0]["may"] == ["inspect", "edit", "deprecate", "delete"]
    assert (await place.ann.get("modules?published=true"))["total"] == 0

    review = await place.ann.post("modules/hash-text/versions/1/review")
    assert review["may"] == ["withdraw"]
    assert (await place.lea.get(f"reviews/{review['id']}"))["may"] == ["approve", "reject"]
    assert (await place.admin.get("reviews"))["items"][0]["may"] == ["approve", "reject"]
    approved = await place.lea.post(f"reviews/{review['id']}/approve")
    assert approved["may"] == []
    assert (await place.eve.get("modules/hash-text"))["may"] == ["use"]
    assert (await place.eve.get("modules?published=true"))["total"] == 1

    # The review of an admin's module is decided by another user, even if a third one requested it.
    await place.admin("PATCH", "modules/hash-text", {"inputs": []})
    await place.over(place.admin, "hash-text", "2")
    review = await place.ann.post("modules/hash-text/versions/2/review")
    assert (await place.admin.get(f"reviews/{review['id']}"))["may"] == []
    assert (await place.lea.get(f"reviews/{review['id']}"))["may"] == ["approve", "reject"]


async def test_problems_have_codes_for_translation(place: Place) -> None:
    problem = (await place.ann("POST", "modules", place.body(name="Hash"))).refused(422)
    error = problem["errors"][0]
    assert (error["field"], error["code"], error["arguments"]) == ("name", "module.name", {"name": "Hash"})
    await place.built()
    problem = (await place.ann("POST", "modules", place.body())).refused(409)
    assert (problem["errors"][0]["field"], problem["errors"][0]["code"]) == ("name", "module.taken")
