"""The artifact attacks as whole runs of a member, on a complete server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import orjson
import pytest
import pytest_asyncio

from tests.server.platform.served import Client
from tests.server.platform.whole import Whole, ended, eventually, whole_muster

SECRET = "the admin's token"


class Story:
    """A server with a member, and a file that must stay out of the member's reach."""

    def __init__(self, muster: Whole, alice: Client) -> None:
        self.muster, self.alice = muster, alice
        self.secret = muster.home / "identity/only-for-the-server"
        self.secret.write_text(SECRET)
        self._number = 0

    async def run(self, *templates: dict[str, Any]) -> dict[str, Any]:
        """Runs templates one after the other. Returns the run when it has ended."""
        self._number += 1
        name = f"story-{self._number}"
        steps = [[{"name": each["name"], "template": each["name"]}] for each in templates]
        manifest = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"generateName": "a-"},
            "spec": {"entrypoint": "main", "templates": [{"name": "main", "steps": steps}, *templates]},
        }
        await self.alice.post("workflows", {"name": name, "version": {"manifest": orjson.dumps(manifest).decode()}})
        run = await self.alice.post("runs", {"workflow": name})
        return await ended(self.alice, run["id"])

    async def log(self, run: dict[str, Any], step: int, name: str) -> str:
        return str(await self.alice.get(f"runs/{run['id']}/nodes/%5B{step}%5D.{name}/log"))

    def text_in(self, folder: str) -> str:
        found = ""
        for path in (self.muster.home / folder).rglob("*"):
            with suppress(FileNotFoundError):  # it has just been deleted
                found += path.read_text(errors="replace") if path.is_file() and not path.is_symlink() else ""
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Story]:
    home = tmp_path_factory.mktemp("muster") / "home"
    async with whole_muster(home, "") as muster:
        yield Story(muster, await muster.member("alice"))


def script(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "container": {"image": "busybox", "command": ["sh", "-ec", text]}, **more}


def takes(key: str, path: str = "/tmp/in", **more: Any) -> dict[str, Any]:
    return {
        "inputs": {"artifacts": [{"name": "in", "path": path, "s3": {"key": f"{{{{workflow.name}}}}/{key}"}, **more}]}
    }


def gives(path: str, key: str, **more: Any) -> dict[str, Any]:
    location = {"archive": {"none": {}}, "s3": {"key": f"{{{{workflow.name}}}}/{key}"}}
    return {"outputs": {"artifacts": [{"name": "out", "path": path, **location, **more}]}}


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_run_stores_and_fetches_its_own_artifacts(story: Story) -> None:
    """(for comparison) a member's run passes a file and a folder on, packed and not"""
    run = await story.run(
        script("make", "mkdir -p /tmp/out/deep; echo hello > /tmp/out/deep/file", **gives("/tmp/out", "out")),
        script("use", "cat /tmp/in/deep/file", **takes("out")),
        script("pack", "echo packed > /tmp/file", **gives("/tmp/file", "file.tgz", archive={"tar": {}})),
        script("unpack", "cat /tmp/in", **takes("file.tgz")),
    )
    assert run["state"] == "succeeded", run
    assert await story.log(run, 1, "use") == "hello\n"
    assert await story.log(run, 3, "unpack") == "packed\n"


async def test_a_link_in_an_output_leads_to_the_data_directory(story: Story) -> None:
    """A member's run stores a folder with a link to the data directory, and takes a key behind the link"""
    run = await story.run(
        script(
            "make",
            f"mkdir /tmp/out; ln -s {story.muster.home} /tmp/out/home; ln -s {story.secret} /tmp/out/token",
            **gives("/tmp/out", "out"),
        ),
        script("use", "cat /tmp/in", **takes("out/home/identity/only-for-the-server")),
    )
    assert run["state"] == "failed"
    assert SECRET not in story.text_in("workflows")
    run = await story.run(
        script("make", f"mkdir /tmp/out; ln -s {story.secret} /tmp/out/token", **gives("/tmp/out", "out")),
        script("use", "cat /tmp/in/token || echo refused", **takes("out")),
    )
    assert await story.log(run, 1, "use") != f"{SECRET}\n"
    assert SECRET not in await story.log(run, 1, "use")


async def test_an_output_is_written_through_a_link(story: Story) -> None:
    """A member's run stores an output under a key that leads through a link to the data directory"""
    run = await story.run(
        script("make", f"mkdir /tmp/out; ln -s {story.secret.parent} /tmp/out/home", **gives("/tmp/out", "out")),
        script("write", "echo evil > /tmp/evil", **gives("/tmp/evil", "out/home/only-for-the-server")),
    )
    assert run["state"] == "failed"
    assert story.secret.read_text() == SECRET


async def test_an_output_path_is_a_link_to_the_data_directory(story: Story) -> None:
    """The output path of a member's run is a link to a file of the server"""
    run = await story.run(
        script("make", f"ln -s {story.secret} /tmp/out", **gives("/tmp/out", "out")),
        script("use", "cat /tmp/in", **takes("out")),
    )
    assert run["state"] == "failed"
    assert SECRET not in story.text_in("workflows")


async def test_an_input_overwrites_what_a_link_in_a_volume_leads_to(story: Story) -> None:
    """A member's input artifact is written through a link that an earlier step left in a shared volume"""
    volume = {"volumes": [{"name": "v", "emptyDir": {}}]}
    mount = [{"name": "v", "mountPath": "/v"}]
    use = script("use", "cat /v/link/in || true", **takes("out", "/v/link/only-for-the-server"), **volume)
    use["container"]["volumeMounts"] = mount
    use["initContainers"] = [
        {"name": "plant", "image": "busybox", "command": ["ln", "-s", str(story.secret.parent), "/v/link"],
         "volumeMounts": mount}
    ]  # fmt: skip
    await story.run(script("make", "echo evil > /tmp/out", **gives("/tmp/out", "out")), use)
    assert story.secret.read_text() == SECRET


async def test_a_deleted_run_leaves_artifacts_and_logs(story: Story) -> None:
    """A deleted run leaves its artifacts and logs on the server"""
    run = await story.run(script("make", "echo remember-me | tee /tmp/out", **gives("/tmp/out", "out")))
    assert run["state"] == "succeeded"
    assert "remember-me" in story.text_in("workflows/artifacts")
    assert "remember-me" in story.text_in("logs")
    (await story.alice("DELETE", f"runs/{run['id']}")).ok()

    async def is_gone() -> bool:
        found = await asyncio.to_thread(lambda: story.text_in("workflows") + story.text_in("logs"))
        return "remember-me" not in found

    await eventually(is_gone)


async def test_another_member_takes_the_key_of_a_run(story: Story) -> None:
    """Another member names the key of a run's artifact"""
    run = await story.run(script("make", "echo alices > /tmp/out", **gives("/tmp/out", "out")))
    bob = Story(story.muster, await story.muster.member("bob"))
    key = f"run-{run['id']}/out"
    take = script("use", "cat /tmp/in")
    take["inputs"] = {"artifacts": [{"name": "in", "path": "/tmp/in", "s3": {"key": "{{inputs.parameters.key}}"}}],
                      "parameters": [{"name": "key", "value": key}]}  # fmt: skip
    manifest = {
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "a-"},
        "spec": {"entrypoint": "use", "templates": [take]},
    }  # fmt: skip
    told = await bob.alice(
        "POST", "workflows", {"name": "grab", "version": {"manifest": orjson.dumps(manifest).decode()}}
    )
    assert told.status == 422
    assert (await bob.alice("GET", f"runs/{run['id']}/nodes/%5B0%5D.make/outputs/out")).status in (403, 404)
