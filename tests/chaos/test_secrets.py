"""The values of a Secret are returned only to a client that reads the Secret, and are stored nowhere else."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from muster.kube.builtin import EVENT, SECRET
from muster.kube.errors import ApiError
from muster.kube.objects import Object
from muster.kube.remote.client import RemoteCluster
from tests.chaos.real_server import PATIENCE, RealServer, has_ended, phase_of, until_pods
from tests.chaos.simple_objects import shell_pod

PASSWORD = "correct-horse-battery-staple"
OTHER = "tr0ub4dor-and-3"


async def messages(cluster: RemoteCluster) -> list[str]:
    return [str(event["message"]) for event in (await cluster.list(EVENT, "default")).items]


async def test_values_are_only_in_the_object(new_server: Callable[..., RealServer]) -> None:
    server = new_server()
    await server.start("--debug")
    async with server.client() as cluster:
        await cluster.create(secret("password", password=PASSWORD))
        await cluster.create(using("env-and-file", "password"))
        await cluster.create(using("wrong-key", "password", key="pasword"))
        await cluster.patch(SECRET, "password", "default", {"stringData": {"other": OTHER}})
        for wrong in (
            {"data": {"password": PASSWORD + "!"}},  # not base64
            {"data": {"password": [PASSWORD]}},
            {"stringData": PASSWORD},
            {"type": ["Opaque"], "stringData": {"password": PASSWORD}},
        ):
            with pytest.raises(ApiError):
                await cluster.create({**secret("wrong"), **wrong})
        pods = await until_pods(cluster, lambda pods: has_ended(pods["env-and-file"]))
        assert phase_of(pods["env-and-file"]) == "Succeeded"
        # Events are stored a moment later than what they are about.
        said: list[str] = []
        async with asyncio.timeout(PATIENCE):
            while not any("pasword" in message for message in said):
                said = await messages(cluster)
    shown = [
        server.muster(*words).stdout
        for words in (
            ("get", "secrets"),
            ("get", "secret", "password", "-o", "wide"),
            ("describe", "secret", "password"),
            ("describe", "pods"),
            ("get", "pods", "-o", "yaml"),
            ("events",),
        )
    ]
    assert "password" in shown[0]
    assert "28 bytes" in shown[2]
    assert_hidden("\n".join([*shown, *said]))
    assert_hidden(server.log())
    asked_for = server.muster("get", "secret", "password", "-o", "jsonpath={.data.password}").stdout
    assert base64.b64decode(asked_for).decode() == PASSWORD


async def test_the_folder_that_holds_values_is_for_its_owner_only(new_server: Callable[..., RealServer]) -> None:
    server = new_server()
    server.home.chmod(0o755)  # with the permissions of a plain mkdir
    await server.start()
    async with server.client() as cluster:
        await cluster.create(secret("password", password=PASSWORD))
        await cluster.create(using("reader", "password"))
        await until_pods(cluster, lambda pods: has_ended(pods["reader"]))
    assert open_to_others(server.home) == []


def open_to_others(home: Path) -> list[Path]:
    """Files that contain a value and that other users can read."""
    found = []
    for folder, _, names in os.walk(home):  # unlike rglob, it bears with the folders of an ended Pod that go meanwhile
        for path in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):
                way = [path, *path.parents[: len(path.relative_to(home).parts)]]
                if _has_value(path) and all(step.stat().st_mode & 0o077 for step in way):
                    found.append(path)
    return found


def _has_value(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    content = path.read_bytes()
    return any(form.encode() in content for form in forms(PASSWORD))


def assert_hidden(text: str) -> None:
    for value in (PASSWORD, OTHER):
        for form in forms(value):
            assert form not in text


def forms(value: str) -> tuple[str, str]:
    return value, base64.b64encode(value.encode()).decode().rstrip("=")


def secret(name: str, **values: str) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}


def using(name: str, secret: str, key: str = "password") -> Object:
    """A Pod that checks the value without printing it."""
    pod = shell_pod(name, '[ ${#VALUE} = 28 ] && [ "$(cat /secret/password)" = "$VALUE" ]')
    reference = {"secretKeyRef": {"name": secret, "key": key}}
    pod["spec"]["containers"][0]["env"] = [{"name": "VALUE", "valueFrom": reference}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "s", "mountPath": "/secret"}]
    pod["spec"]["volumes"] = [{"name": "s", "secret": {"secretName": secret}}]
    return pod
