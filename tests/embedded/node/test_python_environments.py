"""Environments that Pods share: what is asked for, and real ones."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.pip_shim import is_satisfied, parse_install
from muster.embedded.node.pod_context import InvalidAnnotation
from muster.embedded.node.pod_status import has_ended
from muster.embedded.node.python_environments import (
    EnvironmentRequest,
    choose_evictions,
    python_version_of,
    read_request,
)
from muster.embedded.settings import ImageSettings
from muster.kube.budgets import Budgets
from muster.kube.builtin import POD
from muster.kube.cluster import BUILD_ENVIRONMENT_ANNOTATION, PIP_INSTALL_ANNOTATION, LogQuery
from muster.kube.objects import Object, annotations_of, key_of, status_of, uid_of
from muster.kube.pod_security import ISOLATION_LABEL, RESTRICTED
from tests.embedded.node import harness
from tests.embedded.node.harness import Node, waiting

ISOLATION, WHY = probe_isolation()
needs_isolation = pytest.mark.skipif(ISOLATION == "none", reason=WHY)

RECORD = {"pandas==2.2.0": True, "kfp==2.17.0": False, 'typing-extensions>=3.7.4,<5; python_version<"3.9"': False}


@pytest.mark.parametrize(
    ("words", "satisfied"),
    [
        ("install --quiet --no-warn-script-location kfp==2.17.0 --no-deps", True),
        ("install kfp==2.17.0", False),  # its dependencies are not there
        ("install pandas==2.2.0", True),
        ("install --no-deps pandas==2.2.0", True),
        ("install pandas==2.2.0 kfp==2.17.0 --no-deps", True),
        ("install pandas", False),  # it may be there, but a newer one may be wanted: pip decides
        ("install --index-url https://pypi.org/simple --trusted-host pypi.org pandas==2.2.0", True),
        ("install --index-url=https://pypi.org/simple pandas==2.2.0", True),
        ("install -U pandas==2.2.0", False),
        ("install --upgrade pandas==2.2.0", False),
        ("install -r requirements.txt", False),
        ("install .", False),
        ("install git+https://example.org/a.git", False),
        ("install", False),
        ("install --index-url", False),
        ("uninstall pandas==2.2.0", False),
        ("list", False),
        ("", False),
    ],
)
def test_pip_has_nothing_to_do(words: str, satisfied: bool) -> None:
    assert is_satisfied(words.split(), RECORD) is satisfied


def test_a_requirement_may_have_a_condition() -> None:
    assert is_satisfied(["install", *RECORD, "--no-deps"], RECORD)
    assert parse_install(["a @ https://example.org/a.whl"]) is None


def pod(commands: Any, image: str = "python:3.11", **container: Any) -> Object:
    text = commands if isinstance(commands, str) else json.dumps(commands)
    return {
        "metadata": {"name": "x", "namespace": "default", "annotations": {PIP_INSTALL_ANNOTATION: text}},
        "spec": {"containers": [{"name": "main", "image": image, **container}]},
    }


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pod([["a==1", "--no-deps"], ["b"]]), (("a==1", "--no-deps"), ("b",))),
        (pod([["git+https://example.org/a.git@main"]]), None),  # it may be another one tomorrow
        (pod([["./folder"]]), None),
        (pod([["-r", "requirements.txt"]]), None),
        (pod([["a"]], env=[{"name": "PIP_INDEX_URL", "valueFrom": {"secretKeyRef": {}}}]), None),
        (pod([["a"]], env=[{"name": "OTHER", "valueFrom": {"secretKeyRef": {}}}]), (("a",),)),
        ({"metadata": {}, "spec": {"containers": [{}]}}, None),
    ],
)
def test_what_a_pod_asks_for(wanted: Object, expected: Any) -> None:
    found = read_request(wanted)
    assert (found.commands if found is not None else None) == expected


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1]", '["a"]', "[[1]]", "[[" + '"a",' * 600 + '"a"]]'])
def test_an_annotation_that_cannot_be_read(text: str) -> None:
    if not text:
        assert read_request(pod(text)) is None
        return
    with pytest.raises(InvalidAnnotation):
        read_request(pod(text))


def test_the_key_tells_apart_what_makes_environments_differ() -> None:
    base = EnvironmentRequest((("a==1",),), (), "python:3.11")
    week = 7 * 24 * 3600.0
    assert base.key("3.11.7", 0) == base.key("3.11.7", 5 * week)
    others = [
        base.key("3.12.1", 0),
        base._replace(commands=(("a==2",),)).key("3.11.7", 0),
        base._replace(commands=(("a==1",), ("b==1",))).key("3.11.7", 0),
        base._replace(variables=(("PIP_INDEX_URL", "x"),)).key("3.11.7", 0),
    ]
    assert len({base.key("3.11.7", 0), *others}) == 5
    loose = base._replace(commands=(("a>=1",),))
    assert loose.key("3.11.7", 0) != loose.key("3.11.7", 5 * week)


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("python:3.11", "3.11"),
        ("python:3.9-slim", "3.9"),
        ("docker.io/library/python:3.12.4-alpine", "3.12"),
        ("python", ""),
        ("python:slim", ""),
        ("pytorch/pytorch:3.1", ""),
    ],
)
def test_the_version_an_image_names(image: str, version: str) -> None:
    assert python_version_of(image) == version


def test_the_least_recently_used_environments_make_room() -> None:
    known = [("old", 10, 1.0), ("older", 10, 0.0), ("new", 10, 2.0)]
    assert choose_evictions(known, (), 30) == []
    assert choose_evictions(known, (), 15) == ["older", "old"]
    assert choose_evictions(known, {"older"}, 20) == ["old"]
    assert choose_evictions(known, {"old", "older", "new"}, 0) == []


def make_wheel(folder: Path, name: str, version: str = "1.0") -> None:
    """The smallest package that pip installs."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build is seconds of work, which takes minutes on a busy machine."""
    monkeypatch.setattr(harness, "SECONDS", 180.0)


def asking(*commands: list[str]) -> dict[str, Any]:
    return {"annotations": {PIP_INSTALL_ANNOTATION: json.dumps(commands)}}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """A container whose pip finds packages at a server of this test, and the files that were fetched."""
    for name in ("first", "second"):
        make_wheel(tmp_path / "wheels", name)
    fetched = list[str]()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, _format: str, *values: Any) -> None:
            fetched.extend(str(values[0]).split()[1:2])

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path / "wheels")))
    thread = Thread(target=server.serve_forever)
    thread.start()
    variables = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": f"http://127.0.0.1:{server.server_address[1]}/",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    env = [{"name": name, "value": value} for name, value in variables.items()]
    yield {"image": "python", "env": env}, fetched
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
@pytest.mark.smoke
@needs_isolation
async def test_pods_share_an_environment_and_no_changes(node: Node, index: tuple[dict[str, Any], list[str]]) -> None:
    """Four Pods at once cause one build. What one of them writes or installs besides, no other one sees."""
    container, fetched = index
    script = (
        "set -e; pip install --quiet first==1.0 --no-deps; python3 -c 'import first';"
        '! test -e "$VIRTUAL_ENV/mine"; touch "$VIRTUAL_ENV/mine";'
        "if python3 -c 'import second' 2> /dev/null; then exit 3; fi;"
        "if [ $HOSTNAME = pod-0 ]; then python3 -m pip install --quiet second; python3 -c 'import second'; fi;"
        "echo $VIRTUAL_ENV"
    )
    names = [f"pod-{number}" for number in range(4)]
    for name in names:
        await node.create(name, "sh", "-c", script, container=container, metadata=asking(["first==1.0"]))
    for name in names:
        assert status_of(await node.ended(name))["phase"] == "Succeeded", await node.logs(name)
    places = {await node.logs(name) for name in names}
    assert len(places) == 1
    assert fetched.count("/first-1.0-py3-none-any.whl") == 1
    assert fetched.count("/second-1.0-py3-none-any.whl") == 1
    await node.create("late", "sh", "-c", script, container=container, metadata=asking(["first==1.0"]))
    assert status_of(await node.ended("late"))["phase"] == "Succeeded", await node.logs("late")
    assert fetched.count("/first-1.0-py3-none-any.whl") == 1
    assert [annotations_of(pod).get(BUILD_ENVIRONMENT_ANNOTATION) for pod in (await node.cluster.list(POD)).items] == [
        None
    ] * 5
    folder = node.settings.home / "environments/default"
    assert [place.name for place in folder.iterdir()] == [Path(places.pop().strip()).name]


@pytest.mark.slow
@needs_isolation
async def test_a_build_that_fails_leaves_the_error_to_the_pod(
    node: Node, index: tuple[dict[str, Any], list[str]]
) -> None:
    container, _ = index
    script = "python3 -c 'import first' 2> /dev/null || echo none of it; echo it runs"
    await node.create("x", "sh", "-c", script, container=container, metadata=asking(["missing==1.0"]))
    assert status_of(await node.ended("x"))["phase"] == "Succeeded"
    assert await node.logs("x") == "none of it\nit runs\n"
    assert any("BuildingEnvironment" in event for event in await node.events("x"))
    assert not any((node.settings.home / "environments/default").iterdir())


@pytest.mark.slow
@pytest.mark.skipif(ISOLATION != "namespaces", reason=f"needs a server that runs as root: {WHY}")
async def test_members_have_environments_of_their_own(node: Node, index: tuple[dict[str, Any], list[str]]) -> None:
    """The same packages are built once for each namespace, by its own user, who cannot change the shared files."""
    container, fetched = index
    script = (
        "set -e; python3 -m pip install -q first==1.0; python3 -m pip install -q second; python3 -c 'import second';"
        "id -u; stat -c %u $VIRTUAL_ENV/pyvenv.cfg; echo x > $VIRTUAL_ENV/pyvenv.cfg; echo $VIRTUAL_ENV"
    )
    found = {}
    for name in ("alice", "bob"):
        metadata = {"name": name, "labels": {ISOLATION_LABEL: RESTRICTED}}
        await node.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for turn in ("first", "second"):
            pod = {"name": f"{name}-{turn}", "namespace": name, **asking(["first==1.0"])}
            made = await node.create("", "sh", "-c", script, container=container, metadata=pod, nodeName="")
            await node.cluster.bind([(key_of(made), uid_of(made), "node")])
            async with asyncio.timeout(60):
                async for event in node.cluster.watch(POD, name, fields=f"metadata.name={name}-{turn}"):
                    if has_ended(event.object):
                        break
            pieces = [piece async for piece in node.cluster.logs(f"{name}-{turn}", name, LogQuery())]
            found[name, turn] = b"".join(pieces).decode().split()
    for name in ("alice", "bob"):
        user, owner, place = found[name, "second"]
        assert found[name, "first"] == found[name, "second"]
        assert user == owner != "0"
        assert Path(place).parent.name == name
        assert Path(place, "pyvenv.cfg").read_text() != "x\n"
    assert found["alice", "first"][0] != found["bob", "first"][0]
    assert fetched.count("/first-1.0-py3-none-any.whl") == 2


@pytest.mark.slow
@needs_isolation
async def test_a_build_outlives_the_server(node: Node, index: tuple[dict[str, Any], list[str]]) -> None:
    """The server is killed while an environment is built. The next one finds the build Pod and its folder."""
    container, fetched = index
    commands = asking(["first==1.0"])
    await node.create("x", "python3", "-c", "import first", container=container, metadata=commands)
    await node.until("x", lambda pod: waiting(pod).get("reason") == "ContainerCreating")
    await node.restart()
    assert status_of(await node.ended("x"))["phase"] == "Succeeded", await node.logs("x")
    assert fetched.count("/first-1.0-py3-none-any.whl") == 1
    left = node.settings.home / "environments/default/.building-0"
    left.mkdir()
    await node.restart()
    await node.wait_until(lambda: not left.exists())
    await node.create("y", "python3", "-c", "import first", container=container, metadata=commands)
    assert status_of(await node.ended("y"))["phase"] == "Succeeded", await node.logs("y")
    assert fetched.count("/first-1.0-py3-none-any.whl") == 1


@pytest.mark.slow
@needs_isolation
async def test_the_least_recently_used_environment_is_removed(
    new_node: Callable[..., Node], index: tuple[dict[str, Any], list[str]]
) -> None:
    """Two environments do not fit into one megabyte, and the one in use stays."""
    container, _ = index
    node = new_node(budgets=Budgets(environment_megabytes=1))
    await node.start()
    folder = node.settings.home / "environments/default"
    for name in ("first", "second"):
        command = ["python3", "-c", f"import {name}"]
        await node.create(name, *command, container=container, metadata=asking([f"{name}==1.0"]))
        assert status_of(await node.ended(name))["phase"] == "Succeeded", await node.logs(name)
        assert len([place for place in folder.iterdir() if not place.name.startswith(".")]) == 1
    await node.clean_up()


@pytest.mark.slow
@needs_isolation
async def test_a_mapped_image_has_its_own_environment(
    new_node: Callable[..., Node], index: tuple[dict[str, Any], list[str]]
) -> None:
    container, fetched = index
    node = new_node(images={"python*": ImageSettings(env={"MAPPED": "yes"})})
    await node.start()
    await node.create("x", "sh", "-c", "echo $MAPPED", container=container, metadata=asking(["first==1.0"]))
    await node.ended("x")
    assert (await node.logs("x"), fetched) == ("yes\n", [])
    await node.clean_up()


@pytest.mark.slow
@needs_isolation
async def test_a_container_may_install_more_where_its_environment_is_read_only(
    new_node: Callable[..., Node], index: tuple[dict[str, Any], list[str]]
) -> None:
    """In a user namespace there is no layer over folders outside of the home."""
    container, fetched = index
    node = new_node(isolation="user-namespaces")
    await node.start()
    script = (
        "set -e; pip install -q first==1.0; ! touch $VIRTUAL_ENV/mine; pip install -q second;"
        "pip install -q first==1.0; python3 -c 'import first, second; print(second.__file__)'"
    )
    await node.create("x", "sh", "-c", script, container=container, metadata=asking(["first==1.0"]))
    assert status_of(await node.ended("x"))["phase"] == "Succeeded", await node.logs("x")
    assert (await node.logs("x")).splitlines()[-1] == "/tmp/.pip-packages/second.py"
    assert fetched.count("/first-1.0-py3-none-any.whl") == 1
    await node.clean_up()
