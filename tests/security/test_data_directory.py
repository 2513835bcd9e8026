"""Names from requests and objects never lead to another folder of the data directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from muster.embedded.node.logs import Logs, pod_log_folder
from muster.embedded.node.operations import AgentFiles
from muster.embedded.settings import AgentSettings
from muster.kube.errors import ApiError, NotFound
from muster.platform.runs.logs import delete_logs, saved_log
from tests.embedded.node.harness import Node
from tests.server.kubernetes.served import serving

NAMES = {
    "..": "the parent folder",
    ".": "the folder itself",
    "": "no name",
    "a/../../identity": "a path through other folders",
    "/etc": "an absolute path",
    "a\0b": "a NUL, which the system calls refuse",
    "x" * 4096: "a name that is too long for a file",
    "é" * 200: "a name whose bytes are too long for a file",
}


def names() -> list[object]:
    return [pytest.param(name, id=attack) for name, attack in NAMES.items()]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data directory with something to find in each place that a `..` leads to."""
    for folder in ("logs/team/pod/uid/main", "logs/other/pod/uid/secret", "identity/uid/keys"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("name", names())
def test_a_pod_name_in_a_log_url_lists_another_folder(home: Path, name: str) -> None:
    """The Pod name of a log URL lists another folder"""
    with pytest.raises(NotFound) as refused:
        Logs(str(home / "logs")).newest("team", name)
    assert str(home) not in refused.value.message
    assert len(refused.value.message) < 1000


@pytest.mark.parametrize("name", names())
def test_a_namespace_in_a_log_url_lists_another_folder(home: Path, name: str) -> None:
    """The namespace of a log URL lists another folder"""
    with pytest.raises(NotFound):
        Logs(str(home / "logs")).newest(name, "pod")


@pytest.mark.parametrize("name", names())
def test_the_name_of_an_object_leads_out_of_the_folder_of_its_files(home: Path, name: str) -> None:
    """The name of a Pod, container or run leads out of the folder of its files"""
    files = AgentFiles(AgentSettings(home=home))
    pod = {"metadata": {"namespace": "team", "name": "pod", "uid": "uid"}}
    ways: list[Callable[[], object]] = [
        lambda: pod_log_folder("/logs", "team", name, "uid"),
        lambda: pod_log_folder("/logs", "team", "pod", name),
        lambda: files.output(pod, name, 0),
        lambda: files.last_output(pod, name, 100),
        lambda: files.output({"metadata": {"uid": name}}, "main", 0),
        lambda: saved_log(home, name, 0, "pod"),
        lambda: delete_logs(home, name),
    ]
    for way in ways:
        with pytest.raises(ApiError):
            way()
    assert (home / "identity/uid/keys").is_dir()


def test_the_saved_log_of_a_pod_with_a_long_name_stays_in_the_folder_of_its_run(tmp_path: Path) -> None:
    """A Pod name of the greatest length makes the name of its saved log too long for a file."""
    first, second = (saved_log(tmp_path, "run", 0, "x" * 252 + end) for end in "ab")
    assert first != second
    first.parent.mkdir(parents=True)
    first.touch()


async def test_the_log_of_a_pod_that_does_not_exist_is_requested_by_a_path(tmp_path: Path) -> None:
    """A client asks for the log of `..`, of a path and of a very long name, from the running cluster."""
    node = Node(tmp_path)
    await node.start()
    try:
        for name in NAMES:
            with pytest.raises(NotFound) as refused:
                await node.logs(name)
            assert str(tmp_path) not in refused.value.message
    finally:
        await node.stop()


async def test_an_error_of_the_operating_system_reveals_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to a request that fails on the disk reveals a path of the server"""

    async def fail(*_: object) -> AsyncIterator[bytes]:
        raise OSError(36, "File name too long", str(tmp_path / "secret"))
        yield b""

    async with serving(tmp_path) as served, served.session() as http:
        monkeypatch.setattr(served.node, "logs", fail)
        async with http.get("/api/v1/namespaces/default/pods/p/log") as response:
            text = await response.text()
    assert "File name too long" in text
    assert str(tmp_path) not in text


@pytest.mark.parametrize("path", ["%2e%2e", "..%2f..", "%00", "x" * 3000, "%2e"])
async def test_a_log_url_with_an_encoded_path(tmp_path: Path, path: str) -> None:
    """A log URL with an encoded path reads another folder through the real API"""
    async with serving(tmp_path) as served:
        host, port = served.url.removeprefix("https://").split(":")
        context = served.certificates.client_context()
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        request = f"GET /api/v1/namespaces/default/pods/{path}/log HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        writer.write(f"{request}Authorization: Bearer {served.token}\r\n\r\n".encode())
        answer = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
    assert answer.split()[1] in ("400", "404")
    assert str(tmp_path) not in answer
